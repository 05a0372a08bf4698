// Follows the run: every message of the event stream changes the page in place.
const plots = new Plots();
const blocks = new Blocks();
const live = new Status();
function take(message) {
  if (message.blocks) blocks.update(message.blocks);
  if (message.charts) plots.update(message.charts);
  if (message.steps) plots.showSteps(message.steps);
  plots.findPlaces();
  live.update(message);
  document.dispatchEvent(new Event("message-taken"));
}
rememberOrder(document);
take(JSON.parse(document.getElementById("first-message").textContent));
function connect() {
  const events = new EventSource("events");
  events.addEventListener("open", () => live.setConnected(true));
  events.addEventListener("message", (event) => take(JSON.parse(event.data)));
  events.addEventListener("reload", () => location.reload());
  events.addEventListener("error", () => {
    live.setConnected(false);
    // A browser tries again by itself, unless it was refused.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  });
}
connect();
