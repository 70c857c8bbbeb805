/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "control/config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/suggest.h"
#include "control/config_reader.h"
#include "control/config_schema.h"

struct loader {
	struct config *config;
	struct config_errors *errors;
	uint32_t file;                             /* index into config->files */
	bool in_section;                           /* a section has begun, known or not */
	bool known;                                /* and its keys are to be read */
	bool port_seen;                            /* a port section, right or wrong, in any file */
	bool out_of_memory;
	enum config_section section;
	uint32_t port;                             /* index into config->ports, for [port] */
	char title[64];                            /* "[port lan0]", for messages */
	uint32_t section_lines[CONFIG_SECTION_COUNT]; /* in this file */
};

static void vadd_error(
	struct config_errors *errors, const char *file, unsigned line, const char *fmt, va_list ap)
{
	char *out;
	size_t size, used;

	errors->total++;
	if (errors->count == CONFIG_ERRORS_MAX)
		return;
	out = errors->text[errors->count++];
	size = sizeof(errors->text[0]);
	used = (size_t)snprintf(out, size, line ? "%.200s:%u: " : "%.200s: ", file, line);
	vsnprintf(out + used, size - used, fmt, ap);
}

static void __attribute__((format(printf, 4, 5)))
add_error(struct config_errors *errors, const char *file, unsigned line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vadd_error(errors, file, line, fmt, ap);
	va_end(ap);
}

static const char *file_name(const struct loader *l)
{
	return l->config->files[l->file];
}

static void __attribute__((format(printf, 3, 4))) fault(struct loader *l, unsigned line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vadd_error(l->errors, file_name(l), line, fmt, ap);
	va_end(ap);
}

/* ---- sections ---- */

static void unknown_section(struct loader *l, unsigned line, const char *name)
{
	const char *names[CONFIG_SECTION_COUNT], *near;

	for (int i = 0; i < CONFIG_SECTION_COUNT; i++)
		names[i] = config_sections[i].name;
	near = suggest_nearest(name, names, CONFIG_SECTION_COUNT);
	if (near)
		fault(l, line, "[%.60s]: unknown section; did you mean [%s%s]?", name, near,
			!strcmp(near, "port") ? " NAME" : "");
	else
		fault(l, line,
			"[%.60s]: unknown section; allowed: [router], [memory], [control], [metrics], "
			"[deliver], "
			"[port NAME]",
			name);
}

static bool find_section(const char *name, enum config_section *ret)
{
	for (int i = 0; i < CONFIG_SECTION_COUNT; i++)
		if (!strcmp(config_sections[i].name, name)) {
			*ret = (enum config_section)i;
			return true;
		}
	return false;
}

/* As the kernel's dev_valid_name(), patterns included. NULL = fine. */
static const char *port_name_fault(const char *name)
{
	if (!*name)
		return "a port section needs the interface's name, such as [port eth0]";
	if (strlen(name) > 15)
		return "interface names have at most 15 characters";
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return "that is no interface name";
	for (const char *c = name; *c; c++)
		if (isspace((unsigned char)*c) || *c == '/' || *c == ':')
			return "an interface name holds no white space, slash or colon";
	return NULL;
}

/* Set every key of a section struct (section < 0: all but [port]) to its default. */
static void set_defaults(void *base, bool port)
{
	char why[512];

	for (unsigned i = 0; i < config_key_count; i++)
		if ((config_keys[i].section == CONFIG_SECTION_PORT) == port)
			config_value_parse(
				&config_keys[i], config_keys[i].default_text, base, why, sizeof(why));
}

static struct config_port *add_port(struct loader *l, const char *name, unsigned line)
{
	struct config *c = l->config;
	struct config_port *ports, *p;

	ports = reallocarray(c->ports, c->port_count + 1, sizeof(*ports));
	if (!ports) {
		l->out_of_memory = true;
		return NULL;
	}
	c->ports = ports;
	p = &ports[c->port_count];
	memset(p, 0, sizeof(*p));
	set_defaults(p, true);
	snprintf(p->match, sizeof(p->match), "%s", name);
	p->is_glob = strpbrk(name, "*?[") != NULL;
	p->source = (struct config_source){ l->file, line };
	c->port_count++;
	return p;
}

static void begin_port(struct loader *l, unsigned line, const char *name)
{
	const char *wrong = port_name_fault(name);
	struct config *c = l->config;

	l->port_seen = true;
	if (wrong) {
		fault(l, line, "%s: %s", l->title, wrong);
		return;
	}
	for (uint32_t i = 0; i < c->port_count; i++) {
		struct config_port *p = &c->ports[i];

		if (strcmp(p->match, name))
			continue;
		if (p->source.file == l->file) {
			fault(l, line, "%s: section given twice; first on line %u", l->title, p->source.line);
			return;
		}
		l->port = i;  /* a drop-in adds to what an earlier file says */
		p->source = (struct config_source){ l->file, line };
		l->known = true;
		return;
	}
	if (c->port_count == CONFIG_PORTS_MAX) {
		fault(l, line, "%s: more than %d port sections; use a pattern such as [port eth*]", l->title,
			CONFIG_PORTS_MAX);
		return;
	}
	l->port = c->port_count;
	l->known = add_port(l, name, line) != NULL;
}

static void on_section(void *ctx, unsigned line, const char *header)
{
	struct loader *l = ctx;
	char name[CONFIG_LINE_MAX + 1];
	const char *rest;
	size_t n;

	l->in_section = true;
	l->known = false;
	if (!header) {
		l->port_seen = true;  /* it may have been one */
		return;
	}
	n = strcspn(header, " \t");
	rest = header + n + strspn(header + n, " \t");
	snprintf(l->title, sizeof(l->title), "[%.60s]", header);
	snprintf(name, sizeof(name), "%.*s", (int)n, header);
	if (!find_section(name, &l->section)) {
		unknown_section(l, line, name);
		return;
	}
	if (l->section == CONFIG_SECTION_PORT) {
		begin_port(l, line, rest);
		return;
	}
	if (*rest) {
		fault(l, line, "%s: only [port NAME] has a name behind it; write [%s]", l->title, name);
		return;
	}
	if (l->section_lines[l->section]) {
		fault(l, line, "%s: section given twice; first on line %u", l->title,
			l->section_lines[l->section]);
		return;
	}
	l->section_lines[l->section] = line;
	l->known = true;
}

/* ---- keys ---- */

static void unknown_key(struct loader *l, unsigned line, const char *name)
{
	const char *names[CONFIG_KEYS_MAX], *near;
	char list[300] = "";
	size_t count = 0, used = 0;

	for (unsigned i = 0; i < config_key_count; i++)
		if (config_keys[i].section == l->section)
			names[count++] = config_keys[i].name;
	near = suggest_nearest(name, names, count);
	if (near) {
		fault(l, line, "%s %.60s: unknown key; did you mean \"%s\"?", l->title, name, near);
		return;
	}
	for (size_t i = 0; i < count && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
	fault(l, line, "%s %.60s: unknown key; allowed: %s", l->title, name, list);
}

static void on_key(void *ctx, unsigned line, const char *name, const char *value)
{
	struct loader *l = ctx;
	const struct config_key *key;
	struct config_source *source;
	char why[400];
	void *base;

	if (!l->in_section) {
		fault(l, line, "%.60s: a key before the first [section]", name);
		return;
	}
	if (!l->known)
		return;  /* the section was refused; so much was said */
	if (!*name) {
		fault(l, line, "%s: \"= %.60s\": a value without a key", l->title, value);
		return;
	}
	key = config_key_find(l->section, name);
	if (!key) {
		unknown_key(l, line, name);
		return;
	}
	base = key->section == CONFIG_SECTION_PORT ? (void *)&l->config->ports[l->port] : (void *)l->config;
	source = key->section == CONFIG_SECTION_PORT ? l->config->ports[l->port].sources : l->config->sources;
	source += key - config_keys;
	if (source->line && source->file == l->file) {
		fault(l, line, "%s %s: key given twice; first on line %u", l->title, name, source->line);
		return;
	}
	*source = (struct config_source){ l->file, line };
	if (config_value_parse(key, value, base, why, sizeof(why)) < 0)
		fault(l, line, "%s %s: %s", l->title, name, why);
}

static void on_fault(void *ctx, unsigned line, const char *text)
{
	fault(ctx, line, "%s", text);
}

static const struct config_reader_ops reader_ops = { on_section, on_key, on_fault };

/* ---- files ---- */

/* Read what is in memory as the next file of the configuration. */
static int read_text(struct loader *l, const char *name, const char *data, size_t size)
{
	struct config *c = l->config;
	char **files = reallocarray(c->files, c->file_count + 1, sizeof(*files));

	if (!files)
		return -ENOMEM;
	c->files = files;
	files[c->file_count] = strdup(name);
	if (!files[c->file_count])
		return -ENOMEM;
	l->file = c->file_count++;
	l->in_section = l->known = false;
	memset(l->section_lines, 0, sizeof(l->section_lines));
	if (config_read(data, size, &reader_ops, l) < 0 || l->out_of_memory)
		return -ENOMEM;
	return 0;
}

static int read_file(struct loader *l, const char *path)
{
	char *data = NULL;
	FILE *f = fopen(path, "re");
	struct stat st;
	size_t n;
	int r;

	if (!f) {
		r = -errno;
		add_error(l->errors, path, 0, "cannot open the configuration file: %s", strerror(errno));
		return r;
	}
	if (!fstat(fileno(f), &st) && S_ISDIR(st.st_mode)) {
		fclose(f);
		add_error(l->errors, path, 0, "is a directory, not a configuration file");
		return -EISDIR;
	}
	data = malloc(CONFIG_FILE_SIZE_MAX + 1);
	n = data ? fread(data, 1, CONFIG_FILE_SIZE_MAX + 1, f) : 0;
	if (!data) {
		r = -ENOMEM;
	} else if (ferror(f)) {
		r = -EIO;
		add_error(l->errors, path, 0, "cannot read the configuration file");
	} else if (n > CONFIG_FILE_SIZE_MAX) {
		r = -EFBIG;
		add_error(l->errors, path, 0, "is larger than %u bytes: not a configuration file",
			CONFIG_FILE_SIZE_MAX);
	} else {
		r = read_text(l, path, data, n);
	}
	free(data);
	fclose(f);
	return r;
}

static int is_drop_in(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' && n > 4 && !strcmp(d->d_name + n - 4, ".ini");
}

/* By bytes, so that the locale does not change the order. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* "DIR/NAME.ini" has its drop-ins in "DIR/NAME.d/". */
static int read_drop_ins(struct loader *l, const char *path)
{
	size_t n = strlen(path);
	struct dirent **list;
	char *dir, *file;
	int count, r = 0;

	if (n > 4 && !strcmp(path + n - 4, ".ini"))
		n -= 4;
	if (asprintf(&dir, "%.*s.d", (int)n, path) < 0)
		return -ENOMEM;
	count = scandir(dir, &list, is_drop_in, by_name);
	if (count < 0) {
		if (errno != ENOENT && errno != ENOTDIR) {
			r = -errno;
			add_error(l->errors, dir, 0, "cannot read the directory: %s", strerror(errno));
		}
		free(dir);
		return r;
	}
	for (int i = 0; i < count; i++) {
		if (r != -ENOMEM && asprintf(&file, "%s/%s", dir, list[i]->d_name) >= 0) {
			int one = read_file(l, file);

			r = r ? r : one;
			free(file);
		}
		free(list[i]);
	}
	free(list);
	free(dir);
	return r;
}

static struct config *new_config(void)
{
	struct config *c = calloc(1, sizeof(*c));

	if (c)
		set_defaults(c, false);
	return c;
}

/* @r: what reading came to. Hands the configuration over if all is well. */
static int conclude(struct loader *l, const char *name, int r, struct config **ret)
{
	if (!r && !l->port_seen)
		add_error(l->errors, name, 0,
			"no [port NAME] section: at least one port is needed, such as [port eth0]");
	if (r == -ENOMEM)
		add_error(l->errors, name, 0, "out of memory");
	if (!r && l->errors->total)
		r = -EINVAL;
	if (r < 0) {
		config_free(l->config);
		return r;
	}
	*ret = l->config;
	return 0;
}

int config_load(const char *path, struct config **ret, struct config_errors *errors)
{
	struct loader l = { .config = new_config(), .errors = errors };
	int r, drop_ins;

	memset(errors, 0, sizeof(*errors));
	if (!l.config)
		return -ENOMEM;
	r = read_file(&l, path);
	if (!r || l.config->file_count) {
		drop_ins = read_drop_ins(&l, path);
		r = r ? r : drop_ins;
	}
	return conclude(&l, path, r, ret);
}

int config_parse(
	const char *name, const char *data, size_t size, struct config **ret, struct config_errors *errors)
{
	struct loader l = { .config = new_config(), .errors = errors };

	memset(errors, 0, sizeof(*errors));
	if (!l.config)
		return -ENOMEM;
	return conclude(&l, name, read_text(&l, name, data, size), ret);
}

void config_free(struct config *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->file_count; i++)
		free(c->files[i]);
	free(c->files);
	free(c->ports);
	free(c);
}

const struct config_port *config_find_port(const struct config *c, const char *ifname)
{
	const struct config_port *pattern = NULL;

	for (uint32_t i = 0; i < c->port_count; i++) {
		const struct config_port *p = &c->ports[i];

		if (!p->is_glob && !strcmp(p->match, ifname))
			return p;
		if (p->is_glob && !pattern && !fnmatch(p->match, ifname, 0))
			pattern = p;
	}
	return pattern;
}

bool config_expects_port(const struct config_port *p)
{
	return p->enabled && !p->is_glob;
}

/* @port: NULL for the other sections. */
static void foreach_key(const struct config *c, const struct config_port *port,
	void (*fn)(void *, const char *, const char *, const char *, const char *, unsigned), void *ctx)
{
	const struct config_source *sources = port ? port->sources : c->sources;
	const void *base = port ? (const void *)port : (const void *)c;
	char section[32], value[256];

	for (unsigned i = 0; i < config_key_count; i++) {
		const struct config_key *key = &config_keys[i];

		if ((key->section == CONFIG_SECTION_PORT) != (port != NULL))
			continue;
		snprintf(section, sizeof(section), port ? "%s %s" : "%s", config_sections[key->section].name,
			port ? port->match : "");
		config_value_format(key, base, value, sizeof(value));
		fn(ctx, section, key->name, value, c->files[sources[i].file], sources[i].line);
	}
}

void config_foreach(const struct config *c,
	void (*fn)(void *ctx, const char *section, const char *key, const char *value, const char *file,
		unsigned line),
	void *ctx)
{
	foreach_key(c, NULL, fn, ctx);
	for (uint32_t i = 0; i < c->port_count; i++)
		foreach_key(c, &c->ports[i], fn, ctx);
}
