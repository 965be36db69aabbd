/* version.h - the one place where the version stands: pyproject.toml, pallasc.pc and the Python side read it. */
#ifndef PALLASC_VERSION_H
#define PALLASC_VERSION_H

#define PALLASC_VERSION "0.1.0"

#endif
