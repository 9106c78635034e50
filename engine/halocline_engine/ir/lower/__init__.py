"""From a parsed program to the IR: names, types, intervals, bodies."""
