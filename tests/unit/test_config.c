/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The configuration: golden files (config/NAME.ini gives config/NAME.expected, whole messages), defaults,
 * patterns, drop-ins, and that etc/routerd.ini is what the schema says. Runs in the top folder of the tree.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "control/config.h"
#include "control/config_schema.h"

#define GOLDEN "tests/unit/config"

static struct config_errors errors;

static char *slurp(const char *path, size_t *ret_size)
{
	FILE *f = fopen(path, "r");
	char *data = malloc(CONFIG_FILE_SIZE_MAX);

	if (!f) {
		print_error("%s: cannot open; run in the top folder\n", path);
		free(data);
		return NULL;
	}
	*ret_size = fread(data, 1, CONFIG_FILE_SIZE_MAX - 1, f);
	data[*ret_size] = '\0';
	fclose(f);
	return data;
}

static void print_value(
	void *ctx, const char *section, const char *key, const char *value, const char *file, unsigned line)
{
	if (line)
		fprintf(ctx, "%s:%u [%s] %s = %s\n", file, line, section, key, value);
}

/* What --check would say, or the values that the file sets. */
static char *describe(const char *name, const char *data, size_t size)
{
	struct config *c = NULL;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int r = config_parse(name, data, size, &c, &errors);

	for (unsigned i = 0; i < errors.count; i++)
		fprintf(out, "%s\n", errors.text[i]);
	if (errors.total > errors.count)
		fprintf(out, "and %u more\n", errors.total - errors.count);
	if (!r)
		config_foreach(c, print_value, out);
	fprintf(out, r ? "refused\n" : "configuration is valid\n");
	assert_true((r == 0) == (errors.total == 0));
	assert_true((r == 0) == (c != NULL));
	config_free(c);
	fclose(out);
	return text;
}

static bool golden_matches(const char *ini)
{
	char path[600], *data, *want, *got;
	size_t size, want_size;
	bool same;

	snprintf(path, sizeof(path), GOLDEN "/%s", ini);
	data = slurp(path, &size);
	got = describe(ini, data, size);
	snprintf(path, sizeof(path), GOLDEN "/%.*s.expected", (int)(strlen(ini) - 4), ini);
	if (getenv("ROUTERD_GOLDEN_WRITE")) {
		FILE *f = fopen(path, "w");

		fputs(got, f);
		fclose(f);
	}
	want = slurp(path, &want_size);
	same = want && !strcmp(want, got);
	if (!same)
		print_error("%s: expected:\n%sgot:\n%s", ini, want ? want : "(no file)\n", got);
	free(data);
	free(want);
	free(got);
	return same;
}

static void golden_files(void **state)
{
	DIR *d = opendir(GOLDEN);
	struct dirent *e;
	unsigned seen = 0, bad = 0;

	(void)state;
	assert_non_null(d);
	while ((e = readdir(d))) {
		size_t n = strlen(e->d_name);

		if (n < 4 || strcmp(e->d_name + n - 4, ".ini"))
			continue;
		seen++;
		bad += !golden_matches(e->d_name);
	}
	closedir(d);
	assert_int_equal(bad, 0);
	assert_true(seen >= 38);
}

static struct config *parse(const char *text)
{
	struct config *c = NULL;

	if (config_parse("test.ini", text, strlen(text), &c, &errors) < 0)
		print_error("%s\n", errors.text[0]);
	assert_non_null(c);
	return c;
}

static void defaults(void **state)
{
	struct config *c = parse("[port lan0]\n[port wan0]\n");

	(void)state;
	assert_int_equal(c->workers, 0);
	assert_int_equal(CPU_COUNT(&c->cpus), 0);
	assert_false(c->busy_poll);
	assert_int_equal(c->log_level, LOG_LEVEL_INFO);
	assert_int_equal(c->heartbeat_timeout_ms, 800);
	assert_int_equal(c->memory_size, 64 << 20);
	assert_int_equal(c->frame_size, 4096);
	assert_string_equal(c->socket, "/run/routerd/control.sock");
	assert_string_equal(c->group, "");
	assert_string_equal(c->metrics_listen, "127.0.0.1:9480");
	assert_string_equal(c->deliver_device, "routerd%d");
	assert_int_equal(c->port_count, 2);
	assert_string_equal(c->ports[1].match, "wan0");
	assert_true(c->ports[1].enabled);
	assert_int_equal(c->ports[1].mode, CONFIG_MODE_AUTO);
	assert_int_equal(c->ports[1].queues, 0);
	assert_int_equal(c->ports[1].source.line, 2);
	config_free(c);
}

/* Every default is a value that its own parser takes, and formatting it gives it back. */
static void defaults_are_allowed(void **state)
{
	char why[512], text[256];

	(void)state;
	for (unsigned i = 0; i < config_key_count; i++) {
		const struct config_key *key = &config_keys[i];
		union {
			struct config c;
			struct config_port p;
		} base;

		memset(&base, 0xa5, sizeof(base));
		assert_int_equal(config_value_parse(key, key->default_text, &base, why, sizeof(why)), 0);
		config_value_format(key, &base, text, sizeof(text));
		assert_string_equal(text, key->default_text);
	}
}

static void refused_value_changes_nothing(void **state)
{
	char why[512];

	(void)state;
	for (unsigned i = 0; i < config_key_count; i++) {
		struct config a[2];

		memset(a, 0x5a, sizeof(a));
		assert_int_equal(
			config_value_parse(&config_keys[i], "\x7f?/ %%", &a[0], why, sizeof(why)), -EINVAL);
		assert_memory_equal(&a[0], &a[1], sizeof(a[0]));
	}
}

static void ports_are_found(void **state)
{
	struct config *c =
		parse("[port lan*]\nqueues = 1\n[port lan1]\nenabled = no\n[port la*]\nqueues = 2\n"
		      "[port eth[0-3]]\nqueues = 3\n[port eth4]\n");

	(void)state;
	assert_int_equal(config_find_port(c, "lan0")->queues, 1);   /* the first pattern */
	assert_int_equal(config_find_port(c, "lab0")->queues, 2);
	assert_string_equal(
		config_find_port(c, "lan1")->match, "lan1"); /* the exact name, though it stands behind */
	assert_false(config_find_port(c, "lan1")->enabled);
	assert_int_equal(config_find_port(c, "eth3")->queues, 3);
	assert_null(config_find_port(c, "eth5"));
	assert_null(config_find_port(c, "wan0"));
	assert_false(config_expects_port(&c->ports[0]));
	assert_false(config_expects_port(&c->ports[1]));
	assert_true(config_expects_port(&c->ports[4]));
	config_free(c);
}

static void cpu_lists(void **state)
{
	struct config *c = parse("[router]\ncpus = 0-2,7 , 1023\n[port a]\n");
	char text[256];

	(void)state;
	assert_int_equal(CPU_COUNT(&c->cpus), 5);
	assert_true(CPU_ISSET(7, &c->cpus) && CPU_ISSET(1023, &c->cpus) && !CPU_ISSET(3, &c->cpus));
	config_value_format(config_key_find(CONFIG_SECTION_ROUTER, "cpus"), c, text, sizeof(text));
	assert_string_equal(text, "0-2,7,1023");
	config_free(c);
}

static void listen_addresses(void **state)
{
	struct sockaddr_storage a;
	enum config_listen_kind kind;
	socklen_t length;

	(void)state;
	assert_int_equal(config_listen_parse("off", &kind, &a, &length), 0);
	assert_int_equal(kind, CONFIG_LISTEN_OFF);
	assert_int_equal(config_listen_parse("0.0.0.0:1", &kind, &a, &length), 0);
	assert_int_equal(a.ss_family, AF_INET);
	assert_int_equal(config_listen_parse("[::]:65535", &kind, &a, &length), 0);
	assert_int_equal(a.ss_family, AF_INET6);
	assert_int_equal(config_listen_parse("unix:/run/m", &kind, &a, &length), 0);
	assert_int_equal(kind, CONFIG_LISTEN_UNIX);
	assert_int_equal(config_listen_parse("::1:9480", &kind, &a, &length), -EINVAL);
	assert_int_equal(config_listen_parse("[::1]", &kind, &a, &length), -EINVAL);
	assert_int_equal(config_listen_parse("127.0.0.1:", &kind, &a, &length), -EINVAL);
	assert_int_equal(config_listen_parse("127.0.0.1:0", &kind, &a, &length), -EINVAL);
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void drop_ins(void **state)
{
	char dir[] = "/tmp/routerd-test-XXXXXX", path[64], sub[64], command[64];
	struct config *c = NULL;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(sub, sizeof(sub), "%s/r.d", dir);
	snprintf(path, sizeof(path), "%s/r.ini", dir);
	assert_int_equal(mkdir(sub, 0700), 0);
	write_file(dir, "r.ini", "[router]\nworkers = 1\nlog_level = error\n[port lan0]\nmode = native\n");
	write_file(sub, "20-b.ini", "[router]\nworkers = 3\n[port wan0]\n");
	write_file(sub, "10-a.ini", "[router]\nworkers = 2\n[port lan0]\nqueues = 2\n");
	write_file(sub, "30.txt", "[nonsense]\n");
	assert_int_equal(config_load(path, &c, &errors), 0);
	assert_int_equal(c->workers, 3);
	assert_int_equal(c->log_level, LOG_LEVEL_ERROR);
	assert_int_equal(c->port_count, 2);
	assert_int_equal(c->ports[0].queues, 2);
	assert_int_equal(c->ports[0].mode, CONFIG_MODE_NATIVE);
	assert_int_equal(c->file_count, 3);
	config_free(c);
	/* Errors of every file are told, with the file's name. */
	c = NULL;
	write_file(sub, "20-b.ini", "[router]\nworkers = x\n");
	write_file(dir, "r.ini", "[router]\nworkers = y\n[port lan0]\n");
	assert_int_equal(config_load(path, &c, &errors), -EINVAL);
	assert_null(c);
	assert_int_equal(errors.count, 2);
	assert_non_null(strstr(errors.text[0], "/r.ini:2: [router] workers: "));
	assert_non_null(strstr(errors.text[1], "/r.d/20-b.ini:2: [router] workers: "));
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

static void files_that_cannot_be_read(void **state)
{
	struct config *c = NULL;

	(void)state;
	assert_int_equal(config_load("/nowhere/routerd.ini", &c, &errors), -ENOENT);
	assert_string_equal(errors.text[0],
		"/nowhere/routerd.ini: cannot open the configuration file: No such file or directory");
	assert_int_equal(config_load("/tmp", &c, &errors), -EISDIR);
	assert_string_equal(errors.text[0], "/tmp: is a directory, not a configuration file");
	assert_int_equal(config_load("/dev/zero", &c, &errors), -EFBIG);
	assert_null(c);
}

static void example_is_current(void **state)
{
	char *want = NULL, *got;
	size_t want_size, got_size;
	FILE *out = open_memstream(&want, &want_size);

	(void)state;
	config_write_example(out);
	fclose(out);
	got = slurp("etc/routerd.ini", &got_size);
	assert_non_null(got);
	if (strcmp(want, got))
		print_error("etc/routerd.ini is not what `routerd --example` prints\n");
	assert_string_equal(got, want);
	free(want);
	free(got);
}

/* The example says nothing but comments and sections; with every "#key =" made active it is valid and changes
 * nothing. */
static void example_is_valid(void **state)
{
	struct config *c, *d;
	char *text, *p;
	size_t size;

	(void)state;
	text = slurp("etc/routerd.ini", &size);
	assert_non_null(text);
	for (p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (*p == '#' && p[1] != ' ' && p[1] != '\n')
			*p = ' ';
	}
	c = parse(text);
	d = parse("[port eth0]\n");
	for (unsigned i = 0; i < config_key_count; i++) {
		bool port = config_keys[i].section == CONFIG_SECTION_PORT;

		assert_true((port ? c->ports[0].sources : c->sources)[i].line > 0);
		assert_true(config_value_equal(&config_keys[i], port ? (void *)c->ports : (void *)c,
			port ? (void *)d->ports : (void *)d));
	}
	config_free(c);
	config_free(d);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_files),
		cmocka_unit_test(defaults),
		cmocka_unit_test(defaults_are_allowed),
		cmocka_unit_test(refused_value_changes_nothing),
		cmocka_unit_test(ports_are_found),
		cmocka_unit_test(cpu_lists),
		cmocka_unit_test(listen_addresses),
		cmocka_unit_test(drop_ins),
		cmocka_unit_test(files_that_cannot_be_read),
		cmocka_unit_test(example_is_current),
		cmocka_unit_test(example_is_valid),
	};

	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
