# pallasc: `make` builds the command and the library; `make help` lists the rest. GNU make.
SHELL = /bin/bash
.SHELLFLAGS = -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

BUILD = build
CC ?= cc
ifeq ($(origin CC),default)
CC = cc
endif
WARNINGS = -Wall -Wextra -Wpedantic -Wconversion -Werror
# These, CC, AR, CPPFLAGS and LDFLAGS may come from the environment.
CFLAGS ?= -O2 -g
LDLIBS ?= -Wl,--as-needed -ljansson -lm
# No fused multiply-add, which only some machines have: the output is the same on all.
override ALL_CFLAGS = -std=c11 -ffp-contract=off $(CPPFLAGS) $(CFLAGS) $(WARNINGS) -fPIC -fvisibility=hidden \
	-I. -Iinclude -MMD -MP $(EXTRA_CFLAGS)
ABI = $(shell sed -n 's/^\#define PALLASC_ABI_VERSION //p' include/pallasc/pallasc.h)

# The command's own files; everything else is the library.
COMMAND_SOURCES = $(wildcard src/command/*.c)
SOURCES = $(filter-out $(COMMAND_SOURCES),$(wildcard src/*/*.c passes/*/*.c codegen/*/*.c)) $(EXTRA_SOURCES)
OBJECTS = $(SOURCES:%.c=$(BUILD)/%.o)
PAGE_TEXT = $(BUILD)/page_files
OBJECTS += $(PAGE_TEXT).o
EXPLAIN_TEXT = $(BUILD)/explain_text
COMMAND_OBJECTS = $(COMMAND_SOURCES:%.c=$(BUILD)/%.o) $(EXPLAIN_TEXT).o
UNIT_SOURCES = $(wildcard tests/unit/test_*.c)
UNIT_TESTS = $(UNIT_SOURCES:%.c=$(BUILD)/%)
PROGRAM = pallasc

# `make V=1` shows the commands.
Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' $(1) $(2))

all: $(PROGRAM) $(BUILD)/libpallasc.a $(BUILD)/libpallasc.so
.PHONY: all

$(PROGRAM): $(COMMAND_OBJECTS) $(BUILD)/libpallasc.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $(LDLIBS)

$(BUILD)/libpallasc.a: $(OBJECTS)
	$(call say,AR,$@)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/libpallasc.so.$(ABI): $(OBJECTS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libpallasc.so.$(ABI) -Wl,--no-undefined -o $@ $^ $(LDLIBS)

$(BUILD)/libpallasc.so: $(BUILD)/libpallasc.so.$(ABI)
	$(Q)ln -sf $(notdir $<) $@

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# The files of the page as C: each kind a string, longer than C promises to take.
PAGE_html = codegen/page/page.html
PAGE_css = codegen/page/page.css
PAGE_js = codegen/page/page_base.js codegen/page/page_found.js codegen/page/page.js
PAGE_FILES = $(PAGE_html) $(PAGE_css) $(PAGE_js)
page_string = printf 'extern const char page_$(1)[];\nconst char page_$(1)[] =\n'; \
	sed -e 's/[\\"?]/\\&/g' -e 's/.*/"&\\n"/' $(PAGE_$(1)); echo ';';
$(PAGE_TEXT).c: $(PAGE_FILES) Makefile
	@mkdir -p $(@D)
	$(call say,PAGE,$@)
	$(Q)echo '#pragma GCC diagnostic ignored "-Woverlength-strings"' >$@
	$(Q){ $(foreach kind,html css js,$(call page_string,$(kind))) } >>$@

# What `pallasc explain` shows: a page of the docs.
PAGE_explain = docs/diagnostics.md
$(EXPLAIN_TEXT).c: $(PAGE_explain) Makefile
	@mkdir -p $(@D)
	$(call say,PAGE,$@)
	$(Q)echo '#pragma GCC diagnostic ignored "-Woverlength-strings"' >$@
	$(Q){ $(call page_string,explain) } >>$@

$(PAGE_TEXT).o $(EXPLAIN_TEXT).o: %.o: %.c
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libpallasc.a Makefile
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MF $@.d -o $@ $< $(BUILD)/libpallasc.a -lcmocka $(LDLIBS)

$(BUILD)/tools/%: tools/%.c $(BUILD)/libpallasc.a Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MF $@.d -o $@ $< $(BUILD)/libpallasc.a $(LDLIBS)

# What fails: malloc as a library to be preloaded, and programs that ask libpallasc for much at once (tests/faults).
FAULTS = $(BUILD)/tests/faults
FAULT_TOOLS = $(FAULTS)/failing_malloc.so $(FAULTS)/allocations $(FAULTS)/threads
$(FAULTS)/failing_malloc.so: tests/faults/failing_malloc.c tests/faults/failing_malloc.h Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MF $@.d -shared -o $@ $< -ldl

$(FAULTS)/allocations: tests/faults/failing_malloc.c
$(FAULTS)/allocations $(FAULTS)/threads: $(FAULTS)/%: tests/faults/%.c tests/faults/input.h $(BUILD)/libpallasc.a Makefile
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -pthread -MF $@.d -o $@ $(filter %.c,$^) $(BUILD)/libpallasc.a $(LDLIBS) -ldl

-include $(OBJECTS:.o=.d) $(COMMAND_OBJECTS:.o=.d) $(UNIT_TESTS:=.d) $(FAULT_TOOLS:=.d)

# ---- running and checking ---------------------------------------------------------------------------------------------

PYTHON = .venv/bin/python
EXPORT_PYTHON = .venv-export/bin/python
OLDER_HELIONS = $(patsubst requirements-export-%.txt,%,$(wildcard requirements-export-*.txt))
WITH_PYTHON = PYTHONPATH=python JAX_PLATFORMS=cpu $(PYTHON)
GRAPH = testdata/graphs/attention.json
NEXT_GRAPH = testdata/graphs/softmax_two_pass.json
SCRIPTS = $(filter-out %.py %.c,$(wildcard tools/*)) tests/corpus .ci/run
C_FILES = $(wildcard tools/*.c src/*/*.[ch] passes/*/*.[ch] codegen/*/*.[ch] include/*.h include/pallasc/*.h \
	tests/unit/*.[ch] tests/fuzz/*.[ch] tests/faults/*.[ch] packaging/examples/*.c)

# What a fresh machine lacks. Phony, but quick where nothing is missing.
.PHONY: need-c need-venv need-export need-exports need-bench
need-c:
	@tools/bootstrap c
need-venv:
	@tools/bootstrap venv
need-export:
	@tools/bootstrap venv-export
need-exports:
	@tools/bootstrap venv-exports
need-bench:
	@tools/bootstrap venv-bench

# On all cores, unless -j says how many.
PROCESSES := $(shell nproc 2>/dev/null || echo 2)
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(PROCESSES))

# So that the compiler is there before the build, whatever -j says.
.PHONY: build
build: need-c
	@$(MAKE) --no-print-directory $(JOBS) all

.PHONY: demo
demo: build need-venv
	./$(PROGRAM) $(GRAPH) | ./$(PROGRAM) run - --graph $(GRAPH)
	@printf '%s\n' '' 'What to type next, here: what the compiler decides about a graph, its kernel, and a run of it.' '' \
		'    ./pallasc $(NEXT_GRAPH) --emit=report' \
		'    ./pallasc $(NEXT_GRAPH) -o build/softmax.py' \
		'    ./pallasc run build/softmax.py --graph $(NEXT_GRAPH)'

# check: what everybody runs. check-full: what takes too long for that; with it and the rest .ci/run ends within 45
# minutes. nightly: what takes hours; its last results are in docs/nightly.md.
.PHONY: check check-unit check-python check-full nightly verdicts
check: check-unit check-python
	@echo "make check: all passed, $$(grep -c '       OK ' $(UNIT_LOG)) unit tests and what pytest says above"

# Tests marked `full`; kernels executed as text, before and after each rewrite; random documents; the sanitizers.
FULL_TESTS = $(shell grep -l 'mark\.full' tests/*/test_*.py python/tests/test_*.py)
check-full: build need-venv
	$(PYTEST) -n $(PROCESSES) -m full $(FULL_TESTS)
	@rm -f $(EXECUTED_LOG)
	PALLASC_VERDICTS_LOG=$(EXECUTED_LOG).part $(WITH_PYTHON) tests/executed.py --coverage --drawn 200
	@mv $(EXECUTED_LOG).part $(EXECUTED_LOG)
	@$(MAKE) --no-print-directory soak SECONDS=60 SEED=1000
	@$(MAKE) --no-print-directory asan
	@$(MAKE) --no-print-directory mutations COUNT=500
	@echo "make check-full: all passed"

# The pages of --emit=html in a browser, which draws them.
.PHONY: check-page
check-page: build need-venv
	@tools/bootstrap browser
	$(PYTEST) -n $(PROCESSES) tests/command/page_in_browser.py

# STEPS="modules executor": only these. Tests of `make check` with no kept verdict holding are one of the steps.
nightly: build need-venv
	$(PYTHON) tests/nightly.py $(STEPS)

# tests/verdicts.txt, compiled.txt and executed.txt, from what the last `make check` and `make check-full` found right.
verdicts: need-venv
	@$(WITH_PYTHON) tests/verdicts.py $(VERDICTS) $(EXECUTED_LOG)

check-unit: build
	@$(MAKE) --no-print-directory $(JOBS) run-unit replay

.PHONY: run-unit unit-tests
UNIT_LOG = $(BUILD)/unit.log
unit-tests: $(UNIT_TESTS)
run-unit: unit-tests
	@failed=''; : >$(UNIT_LOG); \
	for test in $(UNIT_TESTS); do \
		echo "== $$test"; \
		$(RUNNER) $$test 2>&1 | tee -a $(UNIT_LOG) || failed="$$failed $$test"; \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# One session in a process for each core, a file of tests in one of them (they share what it prepares). Files that take
# minutes come first, so that none is left alone at the end.
PYTEST = $(WITH_PYTHON) -m pytest
LONG_TESTS = $(addprefix tests/,$(addprefix whole/,test_numerics.py coverage/test_coverage.py test_tpu_compiler.py ops oracle) \
	plan/test_memory.py)
VERDICTS = $(BUILD)/verdicts.log
EXECUTED_LOG = $(BUILD)/executed.log
check-python: build need-venv $(FAULT_TOOLS)
	@rm -f $(VERDICTS) $(VERDICTS).aot
	PALLASC_VERDICTS_LOG=$(VERDICTS).part $(PYTEST) -n $(PROCESSES) --dist loadfile --no-loadscope-reorder \
		$(LONG_TESTS) $(filter-out $(LONG_TESTS) $(LONG_TESTS:=/%),$(wildcard tests/*/test_*.py tests/*/*/test_*.py)) python/tests
	@mv $(VERDICTS).part.aot $(VERDICTS).aot
	@mv $(VERDICTS).part $(VERDICTS)

# One module text for each jax and libtpu that modules say they were tested with: simulated, and compiled for a TPU.
.PHONY: check-jax
check-jax: build
	@tools/bootstrap venv-jaxes
	for python in .venv .venv-jax-*; do JAX_PLATFORMS=cpu $$python/bin/python tests/whole/jax_versions.py || exit; done

.PHONY: check-export
SPREAD = -n $(PROCESSES) --dist worksteal
check-export: build need-exports
	PYTHONPATH=python $(EXPORT_PYTHON) -m pytest $(SPREAD) python/tests_export
	for version in $(OLDER_HELIONS); do PYTHONPATH=python .venv-export-$$version/bin/python -m pytest $(SPREAD) -k 'not committed' \
		python/tests_export/test_language.py python/tests_export/test_export.py python/tests_export/test_helion_use.py || exit; done

# Every module that the tests print, by its hash: what differs from tests/modules.txt. AGAINST=DIR: from what another tree,
# which is built, prints: estimated, renamed or different, with SHOW=3 diffs; DRAWN=N drawn documents too. -record writes the file.
.PHONY: modules modules-record
modules: build need-venv
	$(WITH_PYTHON) tests/modules.py $(if $(AGAINST),--against $(AGAINST)) $(if $(SHOW),--show $(SHOW)) \
		$(if $(MATCH),--match '$(MATCH)') $(if $(DRAWN),--drawn $(DRAWN))

modules-record: build need-venv
	$(WITH_PYTHON) tests/modules.py --record

# The same of all cases by other builds, on other threads, in another locale: MATCH=TEXT only some.
.PHONY: same
same: build need-venv
	@tools/bootstrap fuzz
	$(WITH_PYTHON) tests/same.py $(if $(MATCH),--match '$(MATCH)')

.PHONY: graphs golden docs aot probe-ops probe-tiling bench
# MATCH=TEXT: only the files of testdata/coverage whose name holds it.
graphs: need-export
	PYTHONPATH=python $(EXPORT_PYTHON) tools/graphs.py $(MATCH)

# docs/ops.md and python/pallasc/build/ops.py, docs/diagnostics.md, and the lists of keys and dtypes in other pages, from the source; what docs/tour.md
# shows and docs/pictures, from what ./pallasc prints.
docs: build need-venv $(BUILD)/tools/print_ops
	$(BUILD)/tools/print_ops >docs/ops.md
	$(PYTHON) tools/build_ops.py
	$(PYTHON) tools/diagnostics.py
	$(PYTHON) tools/help_pages.py
	$(PYTHON) tools/tables.py
	$(PYTHON) tools/tour.py
	$(PYTHON) tools/pictures.py

# build/site/docs/site/index.html: the pages of docs/, with references of the Python package and the C header. A link that leads
# nowhere ends it.
.PHONY: site
site: build need-venv
	@tools/bootstrap venv-docs
	PYTHONPATH=python:$$(echo .venv/lib/python3*/site-packages) .venv-docs/bin/sphinx-build -q -W --keep-going -E \
		-c docs/site . $(BUILD)/site
	@echo "$(BUILD)/site/docs/site/index.html"

golden: build need-venv
	$(WITH_PYTHON) tests/print/golden.py --update

aot: build need-venv
	$(WITH_PYTHON) tests/whole/compile_all.py

# The matrix in interpret mode, on every kind of inputs; then docs/proof.md from both.
.PHONY: proof proof-page
proof: build need-venv
	$(WITH_PYTHON) tests/whole/simulate_all.py

proof-page: proof aot
	$(WITH_PYTHON) tests/whole/proof_page.py

# Random documents (tests/whole/oracle) for SECONDS from SEED on; what fails is made small and written to SOAK_OUTPUT.
SECONDS_OF_SOAK = $(or $(SECONDS),600)
SOAK_OUTPUT = $(BUILD)/soak
# LOG=tests/whole/oracle/soaks.json records the counts; soak-page writes them into docs/results.md.
.PHONY: soak soak-page
soak: build need-venv
	$(WITH_PYTHON) tests/whole/oracle/soak.py --seconds $(SECONDS_OF_SOAK) --seed $(or $(SEED),0) --output $(SOAK_OUTPUT) \
		$(if $(LOG),--log $(LOG)) $(if $(COUNT),--count $(COUNT)) $(if $(EXECUTED),--executed $(EXECUTED)) \
		$(if $(SIMULATED),--simulated $(SIMULATED)) $(if $(AOT),--aot $(AOT))
soak-page: need-venv
	$(PYTHON) tests/whole/oracle/page.py

# Mutated graphs against a build with sanitizers; what breaks is written to build/mutations.
.PHONY: mutations
mutations: need-c need-venv
	@$(MAKE) --no-print-directory $(JOBS) $(ASAN) all
	PALLASC=build/asan/pallasc $(WITH_PYTHON) tests/load/mutations.py --count $(or $(COUNT),20000) --seed $(or $(SEED),0)

# Faults planted in the sources, and whether a test sees them: COUNT of SEED, into RESULTS, a line each. AGAIN=1 only known survivors,
# NUMBER="3 7" those of them, TESTS="FILE ..." by these Python tests alone, SECONDS=240 a part of all. planted-page writes the counts into docs/planted.md.
.PHONY: planted planted-page
planted: need-c need-venv
	$(WITH_PYTHON) tests/planted/planted.py --count $(or $(COUNT),200) --seed $(or $(SEED),0) $(if $(AGAIN),--again) \
		$(foreach n,$(NUMBER),--number $(n)) $(if $(TESTS),--tests $(TESTS)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(RESULTS),--results $(RESULTS))
planted-page: need-venv
	$(PYTHON) tests/planted/page.py
# What libFuzzer finds (tests/fuzz, docs/fuzzing.md): SECONDS of all targets together, or RUNS=N executions of each;
# TARGET="load compile" only these, LOG=tests/fuzz/campaigns.json adds to the page's table. fuzz-corpus makes the corpus anew.
FUZZ_TARGETS = load compile kernel target
FUZZ_SOURCES = tests/fuzz/targets.c tests/fuzz/libfuzzer.c tests/fuzz/mutate_json.c tests/fuzz/mutate_text.c
FUZZ_CFLAGS = -O2 -g1 -fsanitize-coverage=inline-8bit-counters,pc-table $(SANITIZE)
FUZZ_NOT_SEEN = -fno-sanitize-coverage=trace-cmp,trace-gep,indirect-calls,stack-depth
.PHONY: fuzz fuzz-corpus fuzz-build
fuzz-build: build need-venv
	@tools/bootstrap fuzz
	@$(MAKE) --no-print-directory $(JOBS) BUILD=build/fuzz CC=clang CFLAGS='$(FUZZ_CFLAGS)' EXTRA_CFLAGS=-DARENA_EXACT=1 \
		$(FUZZ_TARGETS:%=build/fuzz/fuzz-%)
fuzz: fuzz-build
	$(PYTHON) tests/fuzz/fuzz.py $(if $(RUNS),--runs $(RUNS),--seconds $(or $(SECONDS),60)) --seed $(or $(SEED),1) \
		$(if $(LOG),--log $(LOG)) $(TARGET)
fuzz-corpus: fuzz-build
	$(PYTHON) tests/fuzz/fuzz.py --minimize $(TARGET)

$(BUILD)/fuzz-%: $(FUZZ_SOURCES) tests/fuzz/fuzz.h $(BUILD)/libpallasc.a Makefile
	$(call say,FUZZ,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -fsanitize=fuzzer $(FUZZ_NOT_SEEN) -DFUZZ_TARGET='"$*"' -MF $@.d -o $@ $(FUZZ_SOURCES) \
		$(BUILD)/libpallasc.a $(LDLIBS)

# The corpus once more, in this build, each file with a mutation of it.
REPLAY = $(BUILD)/tests/fuzz/replay
.PHONY: replay
replay: $(REPLAY)
	@for target in $(FUZZ_TARGETS); do \
		$(REPLAY) $$target tests/fuzz/corpus/$$target/* 2>$(BUILD)/replay.log || { tail -5 $(BUILD)/replay.log; exit 1; }; \
	done

REPLAY_SOURCES = tests/fuzz/replay.c $(filter-out tests/fuzz/libfuzzer.c,$(FUZZ_SOURCES))
$(REPLAY): $(REPLAY_SOURCES) tests/fuzz/fuzz.h $(BUILD)/libpallasc.a Makefile
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MF $@.d -o $@ $(REPLAY_SOURCES) $(BUILD)/libpallasc.a $(LDLIBS)

probe-ops: build need-venv
	$(WITH_PYTHON) tests/whole/ops/probe.py

# tests/plan/tiling/rules.json and docs/tiling.md: about ten minutes on two idle cores.
probe-tiling: need-venv
	PYTHONPATH=python:tests JAX_PLATFORMS=cpu $(PYTHON) tests/plan/tiling/tiling_probe.py

# The race table. ROW=TEXT prints the rows that hold it, SIDE=ours|helion|hand measures only that side, KNOWN=1 nothing.
BENCH_PART = $(if $(ROW)$(SIDE),$(if $(ROW),--row '$(ROW)') $(if $(SIDE),--side $(SIDE)),-o docs/results.md) $(if $(KNOWN),--known)
bench: build need-bench
	PYTHONPATH=python $(EXPORT_PYTHON) bench/results.py $(BENCH_PART)

# The race's rows for `python -m pallasc on-tpu`, which the package has.
.PHONY: tpu-rows
tpu-rows: need-export
	PYTHONPATH=python $(EXPORT_PYTHON) bench/tpu_rows.py

# docs/coverage.md and tests/whole/coverage/results.json: what is missing or has changed. ROW=TEXT only rows whose name holds it,
# PART=numerics|compiled|cycles|helion only that, KNOWN=1 nothing: it drops what is out of date. Helion's part needs
# .venv-export.
.PHONY: coverage
coverage: build need-venv
	PYTHONPATH=python $(PYTHON) tests/whole/coverage/run.py --helion-python $(EXPORT_PYTHON) \
		$(if $(ROW),--row '$(ROW)') $(if $(PART),--part $(PART)) $(if $(KNOWN),--known)

# PART=cost: without Helion, and the page's table beside it stays.
.PHONY: bench-compile need-valgrind
need-valgrind:
	@tools/bootstrap valgrind
bench-compile: build need-valgrind $(BUILD)/tools/recompile $(if $(PART),need-venv,need-export)
	PYTHONPATH=python $(if $(PART),$(PYTHON),$(EXPORT_PYTHON)) bench/compile_speed.py $(PART:%=--%) -o docs/compile_speed.md

# make bench-kernels SECTION=NAME prints one section.
.PHONY: bench-kernels
bench-kernels: build need-export
	PYTHONPATH=python $(EXPORT_PYTHON) bench/kernels.py $(if $(SECTION),--section $(SECTION),-o docs/kernels.md)

# Which kernels of Helion's tests are accepted: HELION=FOLDER, a checkout; TESTS="test_loops.py ..." only these files.
.PHONY: bench-census
bench-census: build need-export
	$(EXPORT_PYTHON) bench/helion_census.py $(HELION) $(TESTS)

# docs/serving.md and bench/serving.json, serving kernels beside public ones: what is missing or has changed. ROW=TEXT only rows whose
# name holds it, KNOWN=1 nothing. tpu-inference is asked for in the folder TPU_INFERENCE.
.PHONY: bench-serving
bench-serving: build need-bench
	PYTHONPATH=python JAX_PLATFORMS=cpu $(EXPORT_PYTHON) bench/serving.py \
		$(if $(ROW),--row '$(ROW)') $(if $(KNOWN),--known)

# The tables of docs/passes and of the README, each within its page; PAGE=TEXT only pages whose name holds it.
.PHONY: bench-passes
bench-passes: build need-export
	PYTHONPATH=python $(EXPORT_PYTHON) bench/passes.py $(if $(PAGE),--page $(PAGE))

# Masked attention beside full attention: cycles for each block of 256 x 256 scores that counts. ARGS="--row causal --chip v6e --hand".
.PHONY: bench-masked
bench-masked: build need-bench
	PYTHONPATH=python JAX_PLATFORMS=cpu $(EXPORT_PYTHON) bench/masked.py $(ARGS)

# The instrument beside libtpu's own simulator, with docs/profile.md (slow, cached).
.PHONY: bench-profile
bench-profile: build need-venv
	$(WITH_PYTHON) bench/profile_accuracy.py

# VMEM predicted against used, of the kernels in bench/vmem_held.jsonl, with docs/vmem_accuracy.md. ARGS="--draw --seed N" draws others
# (slow). PART=stored: against all that was measured before, in seconds; writes nothing.
.PHONY: bench-vmem
bench-vmem: build need-venv
	$(WITH_PYTHON) bench/$(if $(filter stored,$(PART)),vmem_stored,vmem_accuracy).py $(ARGS)

# Kernels with no configuration given beside the best that `tune` finds, with docs/tune.md and bench/tuned.json (hours, cached):
# what is missing or has changed. ROW=TEXT only rows whose name holds it, ARGS="--minutes 40", KNOWN=1 nothing.
.PHONY: bench-tuned
bench-tuned: build need-export
	PYTHONPATH=python JAX_PLATFORMS=cpu $(EXPORT_PYTHON) bench/tuned.py $(if $(ROW),--row '$(ROW)') $(if $(KNOWN),--known) $(ARGS)

# Our tuner beside Helion's, with as many compiles: a section of docs/results.md, and bench/tuners.json. ROW=TEXT only rows whose
# name holds it, KNOWN=1 compiles nothing, ARGS="--target v6e --compiles 6".
.PHONY: bench-tuners
bench-tuners: build need-bench
	PYTHONPATH=python JAX_PLATFORMS=cpu $(EXPORT_PYTHON) bench/tuners.py $(if $(ROW),--row '$(ROW)') $(if $(KNOWN),--known) $(ARGS)

# The estimate of kernels' times beside the profiler's cycles that are stored, with docs/time_accuracy.md. ARGS="--row TEXT"
# shows the parts of some.
.PHONY: bench-time
bench-time: build need-venv
	$(WITH_PYTHON) bench/time_accuracy.py $(ARGS)

# Operations by unit beside those of Mosaic's last stage that are stored. ARGS=--count compiles rows that are missing.
.PHONY: bench-ops
bench-ops: build need-venv
	$(WITH_PYTHON) bench/op_counts.py $(ARGS)

# ---- lint and instrumented builds -------------------------------------------------------------------------------------

.PHONY: lint lint-c lint-python lint-shell format
lint: lint-c lint-python lint-shell
lint-c: build
	@tools/bootstrap lint
	clang-format --dry-run -Werror $(C_FILES)
	@$(MAKE) --no-print-directory tidy
lint-python: need-venv
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
lint-shell:
	@tools/bootstrap lint
	shellcheck $(SCRIPTS)
format: need-venv
	clang-format -i $(C_FILES)
	.venv/bin/ruff format .

# One stamp for each file, so that -j works and only what changed is looked at again. The analyzer
# makes so many nodes of a function's paths, which takes a quarter of the time that its own 225,000
# take; with these `make nightly` looks again.
TIDY_NODES = 20000
TIDY_SOURCES = $(SOURCES) $(COMMAND_SOURCES) $(UNIT_SOURCES)
.PHONY: tidy
tidy: $(TIDY_SOURCES:%.c=$(BUILD)/tidy/%.ok)
$(BUILD)/tidy/%.ok: %.c .clang-tidy $(wildcard include/*.[hd]* src/*/*.[hd]* passes/*/*.[hd]* codegen/*/*.[hd]* tests/unit/*.h)
	@mkdir -p $(@D)
	$(call say,TIDY,$<)
	$(Q)clang-tidy --quiet --warnings-as-errors='*' $< -- -std=c11 -I. -Iinclude \
		-Xclang -analyzer-config -Xclang max-nodes=$(TIDY_NODES) 2>$(@:.ok=.log) || \
		{ cat $(@:.ok=.log) >&2; exit 1; }
	@touch $@

SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ASAN = BUILD=build/asan PROGRAM=build/asan/pallasc CFLAGS='-O1 -g $(SANITIZE)' EXTRA_CFLAGS=-DARENA_EXACT=1
.PHONY: asan valgrind
asan: need-c
	@$(MAKE) --no-print-directory $(JOBS) $(ASAN) all run-unit replay
	tests/corpus build/asan/pallasc

# Each allocation of the library fails in turn, alone and with all after it, under these sanitizers.
FAULT_GRAPHS = $(addprefix testdata/,graphs/attention.json graphs/matmul_1024.json graphs/layer_norm.json \
	coverage/graphs/jagged_softmax.json coverage/graphs/paged_decode.json)
.PHONY: faults tsan threads
faults: need-c
	@$(MAKE) --no-print-directory $(JOBS) $(ASAN) build/asan/tests/faults/allocations
	build/asan/tests/faults/allocations $(FAULT_GRAPHS)

# Eight threads compile different graphs at once, and judge one graph's configurations, under ThreadSanitizer.
# (gcc warns of what its own instrumentation puts around setjmp.)
TSAN = BUILD=build/tsan PROGRAM=build/tsan/pallasc CFLAGS='-O1 -g -fsanitize=thread' WARNINGS='-Wall -Wextra'
tsan: need-c
	@$(MAKE) --no-print-directory $(JOBS) $(TSAN) all build/tsan/tests/faults/threads
	build/tsan/tests/faults/threads 400 $(FAULT_GRAPHS)
	build/tsan/pallasc sweep -j8 --sample 400 -o /dev/null $(GRAPH)

# COUNT compilations in one process: the same texts each time, and no growth of its memory.
threads: need-c $(FAULTS)/threads
	$(FAULTS)/threads $(or $(COUNT),10000) $(FAULT_GRAPHS)

valgrind: build
	@tools/bootstrap valgrind
	@$(MAKE) --no-print-directory run-unit RUNNER='valgrind -q --leak-check=full --error-exitcode=9'

# ---- installing and packaging -----------------------------------------------------------------------------------------

# As usual: make install PREFIX=/opt/pallasc DESTDIR=/tmp/stage. After one to /usr/local, `ldconfig` finds the .so.
PREFIX = /usr/local
BINDIR = $(PREFIX)/bin
LIBDIR = $(PREFIX)/lib
INCLUDEDIR = $(PREFIX)/include
DATADIR = $(PREFIX)/share
VERSION = $(shell sed -n 's/^\#define PALLASC_VERSION "\(.*\)"/\1/p' include/version.h)

# The man page, and where each shell looks for completions.
BASH_DIR = $(DATADIR)/bash-completion/completions
ZSH_DIR = $(DATADIR)/zsh/site-functions
FISH_DIR = $(DATADIR)/fish/vendor_completions.d
MAN_DIR = $(DATADIR)/man/man1

OWN_FOLDERS = $(INCLUDEDIR)/pallasc $(DATADIR)/pallasc $(DATADIR)/doc/pallasc
FOLDERS = $(BINDIR) $(LIBDIR)/pkgconfig $(OWN_FOLDERS) $(MAN_DIR) $(BASH_DIR) $(ZSH_DIR) $(FISH_DIR)
INSTALLED = $(BINDIR)/pallasc $(LIBDIR)/libpallasc.a $(LIBDIR)/libpallasc.so.$(ABI) $(LIBDIR)/libpallasc.so \
	$(LIBDIR)/pkgconfig/pallasc.pc $(INCLUDEDIR)/pallasc/pallasc.h $(DATADIR)/pallasc/fxtile.schema.json \
	$(addprefix $(DATADIR)/doc/pallasc/,LICENSE README.md CHANGELOG.md) \
	$(MAN_DIR)/pallasc.1 $(BASH_DIR)/pallasc $(ZSH_DIR)/_pallasc $(FISH_DIR)/pallasc.fish

.PHONY: install uninstall
install: all
	install -d $(FOLDERS:%=$(DESTDIR)%)
	install -m 755 $(PROGRAM) $(DESTDIR)$(BINDIR)/pallasc
	install -m 644 $(BUILD)/libpallasc.a $(DESTDIR)$(LIBDIR)
	install -m 755 $(BUILD)/libpallasc.so.$(ABI) $(DESTDIR)$(LIBDIR)
	ln -sf libpallasc.so.$(ABI) $(DESTDIR)$(LIBDIR)/libpallasc.so
	install -m 644 include/pallasc/pallasc.h $(DESTDIR)$(INCLUDEDIR)/pallasc
	sed -e 's|@prefix@|$(PREFIX)|' -e 's|@libdir@|$(LIBDIR)|' -e 's|@includedir@|$(INCLUDEDIR)|' \
		-e 's|@version@|$(VERSION)|' include/pallasc/pallasc.pc.in >$(BUILD)/pallasc.pc
	install -m 644 $(BUILD)/pallasc.pc $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 644 docs/fxtile.schema.json $(DESTDIR)$(DATADIR)/pallasc
	install -m 644 LICENSE README.md CHANGELOG.md $(DESTDIR)$(DATADIR)/doc/pallasc
	install -m 644 packaging/pallasc.1 $(DESTDIR)$(MAN_DIR)
	install -m 644 packaging/completions/pallasc.bash $(DESTDIR)$(BASH_DIR)/pallasc
	install -m 644 packaging/completions/_pallasc $(DESTDIR)$(ZSH_DIR)
	install -m 644 packaging/completions/pallasc.fish $(DESTDIR)$(FISH_DIR)

# Of the folders only what is ours goes; under a DESTDIR all that install made and that is empty.
uninstall:
	rm -f $(INSTALLED:%=$(DESTDIR)%)
	cd $(DESTDIR)/ && rmdir $(if $(DESTDIR),-p $(FOLDERS:/%=%),$(OWN_FOLDERS:/%=%)) 2>/dev/null || true

# dist/: wheels for x86_64 and aarch64, which need nothing but glibc 2.28; the sdist is the checkout.
PACKAGE_PYTHON = .venv-package/bin/python
.PHONY: need-package wheels sdist check-package
need-package:
	@tools/bootstrap venv-package
wheels: need-package
	tools/wheels
sdist: need-package
	$(PACKAGE_PYTHON) -m build --sdist --no-isolation --outdir dist .

# dist/*.deb: the command, the library and its header, as packaging/debian says.
.PHONY: deb
deb: need-c
	@tools/bootstrap deb
	tools/deb

# What is installed, from wheels, sdist, Debian packages and `make install`, works with no compiler and no checkout; aarch64 under qemu.
check-package: wheels sdist build need-venv
	DEB_BUILD_OPTIONS='nocheck noautodbgsym parallel=$(PROCESSES)' $(MAKE) --no-print-directory deb
	@tools/bootstrap package
	$(PYTEST) python/tests_package

.PHONY: clean help
clean:
	rm -rf $(BUILD) $(PROGRAM) dist

help:
	@echo 'make               build ./pallasc and build/libpallasc.{a,so}; V=1 shows the commands'
	@echo 'make demo          compile the attention graph, run the kernel, compare with the reference'
	@echo 'make check         unit tests and pytest; installs what is missing (C libraries, .venv)'
	@echo '                   (kernels whose verdicts are kept are not simulated again; PALLASC_CHECK_DATE=YYYY-MM-DD)'
	@echo 'make verdicts      keep the verdicts of the last make check and check-full: tests/verdicts.txt and beside it'
	@echo 'make check-full    what is too long for make check: ten minutes'
	@echo 'make check-page    the pages of --emit=html in headless Chromium, which is installed (80 MB)'
	@echo 'make nightly       what takes hours, with docs/nightly.md; STEPS="modules executor" only some'
	@echo 'make check-export  the tests that need torch and helion (.venv-export, and one for each older Helion)'
	@echo 'make check-jax     six kernels simulated, seven compiled with each jax and libtpu of requirements-jax-*.txt'
	@echo 'make lint          clang-format, clang-tidy, ruff, shellcheck;  make format applies'
	@echo 'make asan          unit tests and inputs under AddressSanitizer and UBSan'
	@echo 'make faults        the library with each of its allocations failing in turn, under the same: ten minutes'
	@echo 'make tsan          eight threads compile at once, under ThreadSanitizer'
	@echo 'make threads       10,000 compilations in one process: its memory must not grow; COUNT=N'
	@echo 'make valgrind      unit tests under valgrind'
	@echo 'make graphs        export testdata/graphs and testdata/coverage/graphs again; MATCH=TEXT only some of coverage'
	@echo 'make modules       which printed modules differ from tests/modules.txt; AGAINST=DIR from those of a built tree:'
	@echo '                   renamed or different, SHOW=3 diffs, MATCH=TEXT, DRAWN=N; make modules-record writes the file'
	@echo 'make same          every such module by gcc and clang, -O0 to -O3, on other threads, in another locale'
	@echo 'make docs          write docs/ops.md and docs/diagnostics.md again'
	@echo 'make site          the documentation as a site, build/site, with references of Python and C; links are checked'
	@echo 'make golden        write the expected modules of testdata/golden again'
	@echo 'make aot           compile the kernels with the real TPU compiler (slow, cached)'
	@echo 'make proof         simulate every kernel of the matrix on every kind of inputs (slow)'
	@echo 'make proof-page    proof and aot, then docs/proof.md'
	@echo 'make soak          random documents against the reference; SECONDS=600 SEED=0 COUNT=1000 LOG=FILE;'
	@echo '                   EXECUTED=80 SIMULATED=1 AOT=12: of so many together'
	@echo 'make mutations     mutated graphs under AddressSanitizer and UBSan; COUNT=20000 SEED=0'
	@echo 'make planted       faults planted in the sources, and which no test sees; COUNT=200 SEED=0 AGAIN=1'
	@echo 'make fuzz          what libFuzzer finds: SECONDS=60 or RUNS=1000000, TARGET="load compile kernel target" SEED=1;'
	@echo '                   make fuzz-corpus keeps what adds coverage in tests/fuzz/corpus'
	@echo 'make soak-page     their counts and finds into docs/results.md'
	@echo 'make coverage      docs/coverage.md: every kernel family simulated, compiled, beside Helion (cached);'
	@echo '                   ROW=TEXT PART=numerics|compiled|cycles|helion only some'
	@echo 'make probe-ops     ask the TPU compiler and the simulator about every op'
	@echo 'make probe-tiling  ask the TPU compiler how arrays may be cut; docs/tiling.md'
	@echo 'make bench         estimated times beside Helion, hand-written kernels and XLA, with docs/results.md'
	@echo '                   (hours at first, cached); ROW=TEXT SIDE=ours prints a part'
	@echo 'make bench-compile compile speed, with docs/compile_speed.md; PART=cost only instructions, nodes and Python'
	@echo 'make bench-kernels VMEM and estimated times beside Helion, with docs/kernels.md; SECTION=NAME prints one'
	@echo 'make bench-census  which kernels of Helion'"'"'s own tests are accepted; HELION=FOLDER, TESTS="FILE ..."'
	@echo 'make bench-passes  estimated times in the pages of docs/passes and in the README; PAGE=TEXT only some'
	@echo 'make bench-masked  masked attention beside full attention, by block of scores that counts; ARGS="--row causal --hand"'
	@echo 'make bench-profile estimated cycles beside libtpu'"'"'s own simulator, with docs/profile.md (slow, cached)'
	@echo 'make bench-serving serving kernels beside public ones, with docs/serving.md; ROW=TEXT only some'
	@echo 'make tpu-rows      the rows of the race for python -m pallasc on-tpu; needs .venv-export'
	@echo 'make bench-tuned   kernels with no configuration given beside the best that tune finds, with docs/tune.md (hours,'
	@echo '                   cached); ROW=TEXT, ARGS="--minutes 40 --compiles 20"'
	@echo 'make bench-tuners  our tuner beside Helion'"'"'s with as many compiles, in docs/results.md; ROW=TEXT'
	@echo 'make bench-time    estimated times beside the profiler'"'"'s cycles, with docs/time_accuracy.md (seconds)'
	@echo 'make bench-ops     operations by unit beside those of Mosaic; ARGS=--count compiles rows that are missing'
	@echo 'make bench-vmem    VMEM predicted against used, with docs/vmem_accuracy.md; ARGS="--draw --seed N": of other kernels'
	@echo '                   (slow); PART=stored: against all that was measured before'
	@echo 'make install       the command, the library, its header and pallasc.pc; PREFIX=/usr/local DESTDIR=; uninstall'
	@echo 'make wheels sdist  dist/: wheels for x86_64 and aarch64 that need no compiler, and the sources'
	@echo 'make deb           dist/*.deb: the command, the library, its header'
	@echo 'make check-package the tests of what is installed: wheels, sdist, Debian packages, make install, the demo'
	@echo 'make clean         remove what was built; the .venvs stay'
