from backends import register  # CULPRIT


@register("npy")
def decode(path):
    return len(path)
