from backends import register  # CULPRIT


@register("jpg")
def decode(path):
    return len(path) * 3
