"""The functions and classes that users call; `halocline_engine` offers them."""
