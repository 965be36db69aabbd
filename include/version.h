/* version.h - the one place where the version stands; pyproject.toml repeats it, and tests/test_cli.py compares them.
 */
#ifndef PALLASC_VERSION_H
#define PALLASC_VERSION_H

#define PALLASC_VERSION "0.1.0"

#endif
