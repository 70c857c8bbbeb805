# routerd: `make` builds, `make demo` shows it, `make check` runs every test, `make install` installs.
# The first two lines of README.md say the same. V=1 shows the commands, O=DIR builds elsewhere,
# SAN=address,undefined or SAN=thread builds with sanitizers.
O ?= build
SAN ?=
V ?= 0
VERSION := 0.1.0

CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
PKG_CONFIG ?= pkg-config
PYTHON ?= /usr/bin/python3

prefix ?= /usr
sbindir ?= $(prefix)/sbin
bindir ?= $(prefix)/bin
mandir ?= $(prefix)/share/man
datadir ?= $(prefix)/share/routerd
sysconfdir ?= /etc
unitdir ?= $(prefix)/lib/systemd/system
sysusersdir ?= $(prefix)/lib/sysusers.d
completionsdir ?= $(prefix)/share/bash-completion/completions
DESTDIR ?=

# Two phases: in the first the packages may still be missing, so nothing here may ask pkg-config eagerly.
PACKAGES = libbpf libmnl libsystemd inih jansson libmicrohttpd liburcu-qsbr
PKG_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(PACKAGES))
PKG_LIBS = $(shell $(PKG_CONFIG) --libs $(PACKAGES))

CFLAGS ?= -O2 -g
# Every x86-64 processor since 2008 counts bits in one instruction; the IPv6 look-up lives from it.
ifeq ($(shell uname -m),x86_64)
override CFLAGS += -mpopcnt
endif
WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter
ifneq ($(CI),)
WARNINGS += -Werror
endif
override CFLAGS += -std=gnu11 -fno-strict-aliasing -fno-omit-frame-pointer $(WARNINGS)
override CPPFLAGS += -D_GNU_SOURCE -DROUTERD_VERSION='"$(VERSION)"' -Idaemon -I. -I$(O)
override LDFLAGS += -pthread
ifneq ($(SAN),)
# gcc warns of what cannot happen when the sanitizers have rewritten the code: not here, the plain build does that.
override CFLAGS += -fsanitize=$(SAN) -fno-sanitize-recover=all -Wno-format-truncation -Wno-maybe-uninitialized \
	-Wno-stringop-overflow
override LDFLAGS += -fsanitize=$(SAN)
override CPPFLAGS += -DROUTERD_SANITIZED
endif
BPF_CFLAGS = -target bpf -mcpu=v3 -O2 -g -Wall -Werror -I. -I/usr/include/$(shell $(CC) -dumpmachine)

ifeq ($(V),0)
Q = @
say = @printf '  %-7s %s\n' $(1) $(2)
else
Q =
say = @:
endif

FOLDERS = common packet route port worker control api
folder_objects = $(patsubst daemon/%.c,$(O)/obj/%.o,$(wildcard daemon/$(1)/*.c))
LIBRARIES = $(foreach f,$(FOLDERS),$(O)/lib$(f).a)
# Right to left in the order of who may call whom.
LINK_LIBRARIES = -Wl,--start-group $(LIBRARIES) -Wl,--end-group
CLI_OBJECTS = $(patsubst cli/%.c,$(O)/obj/cli/%.o,$(wildcard cli/*.c))
SKELETONS = $(O)/bpf/steer.skel.h $(O)/bpf/deliver.skel.h

UNIT_TESTS = $(patsubst tests/unit/test_%.c,$(O)/tests/test_%,$(wildcard tests/unit/test_*.c))
REPLAY_TESTS = $(patsubst tests/replay/test_%.c,$(O)/tests/replay_%,$(wildcard tests/replay/test_*.c))
BPF_TESTS = $(patsubst tests/bpf/test_%.c,$(O)/tests/bpf_%,$(wildcard tests/bpf/test_*.c))
FUZZ_TESTS = $(patsubst tests/fuzz/fuzz_%.c,$(O)/tests/fuzz_%,$(wildcard tests/fuzz/fuzz_*.c))
BENCHES = $(patsubst tests/bench/bench_%.c,$(O)/tests/bench_%,$(wildcard tests/bench/bench_*.c))
REPLAY_SUPPORT = $(patsubst tests/replay/%.c,$(O)/obj/tests/replay/%.o, \
	$(filter-out tests/replay/test_%.c,$(wildcard tests/replay/*.c)))

.PHONY: all tests check demo deps install uninstall clean bench fuzz lint FORCE
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

all: $(O)/routerd $(O)/routerctl

tests: $(UNIT_TESTS) $(REPLAY_TESTS) $(BPF_TESTS) $(FUZZ_TESTS) $(BENCHES)

# ---- what is missing is installed, once, by apt (root, Debian 12 or later) ----
deps:
	$(Q)tests/deps.sh

check: deps
	$(Q)tests/check.sh

demo: deps
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(PYTHON) tests/lab/demo.py

bench: $(BENCHES)
	$(Q)tests/bench/engine.sh $(O)

# ---- BPF programs and their skeletons ----
$(O)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h)
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

$(O)/bpf/%.skel.h: $(O)/bpf/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# ---- C ----
# A change of the flags (sanitizer, version) rebuilds everything.
$(O)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS)' > $@

COMPILE = $(CC) $(CPPFLAGS) $(PKG_CFLAGS) $(CFLAGS) -MMD -MP
$(O)/obj/%.o: daemon/%.c $(O)/flags | $(SKELETONS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -c $< -o $@

$(O)/obj/cli/%.o: cli/%.c $(O)/flags
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -c $< -o $@

$(O)/obj/tests/%.o: tests/%.c $(O)/flags | $(SKELETONS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(COMPILE) -Itests -c $< -o $@

define library_rule
$(O)/lib$(1).a: $$(call folder_objects,$(1))
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call library_rule,$(f))))

$(O)/routerd: $(O)/obj/main.o $(LIBRARIES)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(LINK_LIBRARIES) $(LDFLAGS) $(PKG_LIBS)

$(O)/routerctl: $(CLI_OBJECTS) $(O)/libapi.a $(O)/libcommon.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -o $@ $(CLI_OBJECTS) $(O)/libapi.a $(O)/libcommon.a $(LDFLAGS) \
		$(shell $(PKG_CONFIG) --libs jansson libsystemd)

TEST_LIBS = $(LINK_LIBRARIES) $(LDFLAGS) $(PKG_LIBS) -lcmocka
$(O)/tests/test_%: $(O)/obj/tests/unit/test_%.o $(LIBRARIES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(TEST_LIBS)

$(O)/tests/replay_%: $(O)/obj/tests/replay/test_%.o $(REPLAY_SUPPORT) $(LIBRARIES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(REPLAY_SUPPORT) $(TEST_LIBS)

$(O)/tests/bpf_%: $(O)/obj/tests/bpf/test_%.o $(LIBRARIES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(TEST_LIBS)

# Fuzz targets as plain programs: the corpus, then seeded mutations (tests/fuzz/main.c).
$(O)/tests/fuzz_%: $(O)/obj/tests/fuzz/fuzz_%.o $(O)/obj/tests/fuzz/main.o $(REPLAY_SUPPORT) $(LIBRARIES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(O)/obj/tests/fuzz/main.o $(REPLAY_SUPPORT) $(TEST_LIBS)

$(O)/tests/bench_%: $(O)/obj/tests/bench/bench_%.o $(REPLAY_SUPPORT) $(LIBRARIES)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(REPLAY_SUPPORT) $(TEST_LIBS)

lint:
	$(Q)ROUTERD_LAYERS=lint O=$(O) tests/check.sh

# ---- installation ----
UNITS = $(wildcard systemd/*.service systemd/*.socket)
install: all
	install -D -m 0755 $(O)/routerd $(DESTDIR)$(sbindir)/routerd
	install -D -m 0755 $(O)/routerctl $(DESTDIR)$(bindir)/routerctl
	test -e $(DESTDIR)$(sysconfdir)/routerd/routerd.ini || \
		install -D -m 0644 etc/routerd.ini $(DESTDIR)$(sysconfdir)/routerd/routerd.ini
	install -D -m 0644 etc/bash-completion/routerctl $(DESTDIR)$(completionsdir)/routerctl
	install -D -m 0644 systemd/routerd.conf $(DESTDIR)$(sysusersdir)/routerd.conf
	install -d $(DESTDIR)$(unitdir)
	for unit in $(UNITS); do \
		sed 's,/usr/sbin,$(sbindir),g' $$unit > $(DESTDIR)$(unitdir)/$$(basename $$unit) && \
		chmod 0644 $(DESTDIR)$(unitdir)/$$(basename $$unit) || exit 1; done

# The configuration stays.
uninstall:
	rm -f $(DESTDIR)$(sbindir)/routerd $(DESTDIR)$(bindir)/routerctl $(DESTDIR)$(completionsdir)/routerctl \
		$(DESTDIR)$(sysusersdir)/routerd.conf $(addprefix $(DESTDIR)$(unitdir)/,$(notdir $(UNITS)))

clean:
	rm -rf $(O)

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
