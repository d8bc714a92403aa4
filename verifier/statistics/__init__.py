"""What counted dice show, and what they do not: exact odds, chi-square, corrected p-values, drawings. Pure.

special, binomial, chi_square   the mathematics, in floats that are accurate to about 1e-13
odds                            streaks and doubles in a game of any length, exact
counts                          from the entries of a log to counts, in memory that does not grow with it
figures, charts, page           the counts as figures with a sentence each, as SVG, as one HTML page
"""
