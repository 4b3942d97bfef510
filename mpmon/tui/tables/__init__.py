"""The lists of the main screen without the screen: rows out of a scene, and columns that fit a width. Pure.

`*_rows` make rows, equal to the previous ones if nothing changed; `*_columns` define the columns and draw a row.
`tree` orders and folds processes, `folds` and `tags` keep the user's choices.
"""
