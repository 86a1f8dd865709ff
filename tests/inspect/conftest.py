from tests.inspect.browser import browser

__all__ = ["browser"]
