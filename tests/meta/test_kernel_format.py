"""The formatter of kernels moves comments and white space, and nothing else."""

from __future__ import annotations

from kernel_format import COLUMNS, lifted, masked, tokens, wrapped

WORDS = "word " * 25  # more than a line


def test_tokens_tell_code_from_comments_and_white_space():
    assert tokens("a - b; /* c */\n") == tokens("a\n  -   b;")
    assert tokens("a - b;") != tokens("a + b;")
    assert tokens("x = y-- - z;") == tokens("x = y - - - z;")  # single signs: clang-format joins none
    assert tokens('"a /* b */"') != tokens('"a"')


def test_a_directive_has_a_line_of_its_own():
    assert tokens("#define A \\\n    1\n2") == tokens("#define A 1\n2")
    assert tokens("#define A 1\n2") != tokens("#define A 1 2")
    assert tokens("#define A 1\n2") != tokens("#define A\n1 2")


def test_names_are_shown_to_clang_format_at_the_same_width():
    for line in ("void FN(body)(struct FN(tile) *t)", "(step) - 1"):
        assert len(masked(line)) == len(line) and masked(line) != line
    for line in ("#define FN(x) conv_##x", "(float)-x", "f(step) - 1"):
        assert masked(line) == line


def test_a_comment_behind_code_that_is_too_long_moves_above_it():
    code = "    int first; /* what it is */"
    assert lifted(code) == code
    assert lifted(f"    int {'a' * 100}; /* what it is */") == f"    /* what it is */\n    int {'a' * 100};"
    ends = f"    }} else if ({'a' * 100}) {{ /* why */"
    assert lifted(ends).split("\n")[1] == "        /* why */"
    macro = f"#define A \\\n    {'a' * 110} /* what it is */"
    assert lifted(macro) == macro


def test_what_is_too_much_goes_on_in_the_same_sentence():
    text = f"/* {WORDS}one\n * two. */\nint a;"
    first, second, last = wrapped(text).split("\n")
    assert len(first) <= COLUMNS and second == " * word word one two. */" and last == "int a;"


def test_a_line_that_says_something_of_its_own_still_begins_with_it():
    lines = wrapped(f"/* {WORDS}one.\n * Defines: A. */").split("\n")
    assert lines[1:] == [" * word word one.", " * Defines: A. */"]


def test_rows_of_a_table_keep_their_column():
    lines = wrapped(f"/*\n * A         {WORDS}one\n * B         two */").split("\n")
    assert lines[2].startswith(" *           word") and lines[3] == " * B         two */"


def test_the_end_of_a_comment_is_not_alone_on_a_line():
    text = f"/* {'word ' * 23}ab */"
    assert len(text) == COLUMNS + len(" */")
    assert wrapped(text).split("\n")[1] == " * ab */"


def test_code_is_never_wrapped():
    text = f'asm("{WORDS}");\nint {"a " * 70};\n/* a */ int {"b " * 70};'
    assert wrapped(text) == text
