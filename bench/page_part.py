"""The part of a page that a bench writes, between two marks."""


def write_part(page, begin, end, text):
    """Puts `text` between the marks of a page, a Path; ValueError where they do not stand once."""
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end, 1)
    page.write_text(before + begin + text + end + after)
