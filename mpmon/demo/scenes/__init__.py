"""The scripts of the demo, one file a scene: jobs as users write them, each with one mistake."""
