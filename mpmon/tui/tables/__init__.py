"""The lists of the main screen without the screen: rows out of a scene, and columns that fit a width. Pure.

`*_rows` make rows, equal to those before where nothing changed; `*_columns` say which columns there are and draw a row.
`tree` orders and folds processes, `folds` and `tags` keep what the user asked for.
"""
