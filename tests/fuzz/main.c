/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Makes a plain program of a fuzz target where libFuzzer is not: runs every file of tests/fuzz/corpus/NAME (NAME: the
 * program's name after "fuzz_"), then seeded random mutations of them.
 *
 *	fuzz_NAME [FILE...]     these files alone
 *	ROUTERD_TEST_SEED       seed of the mutations (printed)   ROUTERD_FUZZ_RUNS  how many (default 20000)
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INPUT_MAX 65536
#define CORPUS_MAX 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	uint8_t *data;
	size_t size;
};

static struct input corpus[CORPUS_MAX];
static size_t corpus_count;
static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * 0x2545f4914f6cdd1dull >> 11;
}

/* Exactly as large as the input, so that the address sanitizer sees a read behind it. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static int load(const char *path)
{
	struct input *in = &corpus[corpus_count];
	FILE *f = fopen(path, "rb");

	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	in->data = malloc(INPUT_MAX);
	if (!in->data)
		abort();
	in->size = fread(in->data, 1, INPUT_MAX, f);
	fclose(f);
	corpus_count++;
	return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_directory(const char *path)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, by_name), r = 0;

	if (n < 0) {
		fprintf(stderr, "%s: %s (run it in the top directory of the source)\n", path, strerror(errno));
		return -1;
	}
	for (int i = 0; i < n; i++) {
		char file[4096];

		snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.' && corpus_count < CORPUS_MAX && load(file) < 0)
			r = -1;
		free(entries[i]);
	}
	free(entries);
	return r;
}

static size_t insert_bytes(uint8_t *b, size_t size, size_t at)
{
	size_t n = 1 + random_next() % 16;

	if (size + n > INPUT_MAX)
		return size;
	memmove(b + at + n, b + at, size - at);
	for (size_t i = 0; i < n; i++)
		b[at + i] = (uint8_t)random_next();
	return size + n;
}

static size_t remove_bytes(uint8_t *b, size_t size, size_t at)
{
	size_t n = 1 + random_next() % 16;

	if (n > size - at)
		n = size - at;
	memmove(b + at, b + at + n, size - at - n);
	return size - n;
}

/* The end of one input behind the beginning of another. */
static size_t splice(uint8_t *b, size_t size, size_t at)
{
	const struct input *other = &corpus[random_next() % corpus_count];
	size_t from = other->size ? random_next() % other->size : 0, n = other->size - from;

	(void)size;
	if (at + n > INPUT_MAX)
		n = INPUT_MAX - at;
	memcpy(b + at, other->data + from, n);
	return at + n;
}

static size_t mutate(uint8_t *b, size_t size)
{
	static const uint8_t interesting[] = { 0, 1, 4, 5, 6, 0x45, 0x46, 0x60, 0x7f, 0x80, 0xfe, 0xff };
	size_t at = size ? random_next() % size : 0;

	switch (random_next() % 8) {
	case 0:
		return insert_bytes(b, size, at);
	case 1:
		return size ? remove_bytes(b, size, at) : size;
	case 2:
		return splice(b, size, at);
	case 3:
	case 4:
		if (size)
			b[at] = interesting[random_next() % sizeof(interesting)];
		return size;
	case 5:
		if (size)
			b[at] = (uint8_t)(b[at] + random_next() % 9 - 4);
		return size;
	default:
		if (size)
			b[at] ^= (uint8_t)(1u << random_next() % 8);
		return size;
	}
}

static void run_mutations(unsigned long runs)
{
	static uint8_t bytes[INPUT_MAX + 64];

	for (unsigned long i = 0; i < runs; i++) {
		const struct input *in = &corpus[random_next() % corpus_count];
		size_t size = in->size;

		memcpy(bytes, in->data, size);
		for (uint64_t k = 1 + random_next() % 6; k; k--)
			size = mutate(bytes, size);
		run(bytes, size);
	}
}

static unsigned long long from_environment(const char *name, unsigned long long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static const char *target_name(const char *program)
{
	const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;

	return strncmp(name, "fuzz_", 5) ? name : name + 5;
}

static void free_corpus(void)
{
	while (corpus_count)
		free(corpus[--corpus_count].data);
}

int main(int argc, char **argv)
{
	unsigned long runs = (unsigned long)from_environment("ROUTERD_FUZZ_RUNS", 20000);
	char path[256];
	int r = 0;

	random_state = from_environment("ROUTERD_TEST_SEED", (unsigned long long)time(NULL));
	if (!random_state)
		random_state = 1;
	snprintf(path, sizeof(path), "tests/fuzz/corpus/%s", target_name(argv[0]));
	if (argc > 1) {
		for (int i = 1; i < argc && corpus_count < CORPUS_MAX; i++)
			r |= load(argv[i]);
		runs = 0;
	} else {
		r = load_directory(path);
	}
	if (r < 0 || !corpus_count) {
		fprintf(stderr, "no corpus\n");
		free_corpus();
		return 1;
	}
	printf("%s: %zu files, %lu mutations, seed %llu (ROUTERD_TEST_SEED reproduces it)\n", target_name(argv[0]),
		corpus_count, runs, (unsigned long long)random_state);
	fflush(stdout);
	for (size_t i = 0; i < corpus_count; i++)
		run(corpus[i].data, corpus[i].size);
	run_mutations(runs);
	free_corpus();
	return 0;
}
