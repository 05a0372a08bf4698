from support.charts_once import charts_once

__all__ = ["charts_once"]
