"""Tests of the screen: a fake watch plays hand-built observations, and screens are compared as plain text."""
