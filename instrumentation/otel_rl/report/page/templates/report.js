let coloured = false;
function whenDrawn(attempt) {
  const documents = window.Bokeh ? Bokeh.documents : [];
  if (documents.length && !coloured) {
    coloured = true;
    colourCharts();
  }
  if (coloured && documents.every((one) => one.is_idle)) {
    document.documentElement.dataset.charts = "drawn";
  } else if (attempt < 200) {
    setTimeout(whenDrawn, 50, attempt + 1);
  }
}
if (document.querySelector("figure")) whenDrawn(0);
