/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Netlink attributes of messages that need not be well formed: every length is looked at before it is used.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <string.h>

#include "control/mirror_private.h"

struct parse {
	const struct nlattr **tb;
	unsigned max;
	int unknown;
};

static int take(const struct nlattr *a, void *data)
{
	struct parse *p = data;
	unsigned type = mnl_attr_get_type(a);

	if (type > p->max)
		p->unknown++;
	else
		p->tb[type] = a;
	return MNL_CB_OK;
}

/* mnl_attr_ok() compares with the length that is left as a signed number; what is shorter than an attribute's
 * header ends the walk. The kernel pads to four bytes, so a rest of up to three is no error. */
int mirror_parse_bytes(const void *payload, size_t bytes, const struct nlattr **tb, unsigned max)
{
	struct parse p = { .tb = tb, .max = max };
	const char *at = payload, *end = at + bytes;

	memset(tb, 0, (max + 1) * sizeof(*tb));
	while (end - at >= (ptrdiff_t)sizeof(struct nlattr)) {
		const struct nlattr *a = (const void *)at;

		if (!mnl_attr_ok(a, end - at))
			return -EINVAL;
		take(a, &p);
		if (MNL_ALIGN(a->nla_len) >= end - at)
			break;
		at += MNL_ALIGN(a->nla_len);
	}
	return p.unknown;
}

int mirror_parse(const struct nlmsghdr *nlh, size_t offset, const struct nlattr **tb, unsigned max)
{
	size_t header = MNL_NLMSG_HDRLEN + MNL_ALIGN(offset);

	if (nlh->nlmsg_len < MNL_NLMSG_HDRLEN + offset)
		return -EINVAL;
	if (nlh->nlmsg_len <= header)
		header = nlh->nlmsg_len;
	return mirror_parse_bytes((const char *)nlh + header, nlh->nlmsg_len - header, tb, max);
}

int mirror_parse_nested(const struct nlattr *nest, const struct nlattr **tb, unsigned max)
{
	return mirror_parse_bytes(mnl_attr_get_payload(nest), mnl_attr_get_payload_len(nest), tb, max);
}

bool attr_bytes(const struct nlattr *a, void *ret, size_t bytes)
{
	if (!a || mnl_attr_get_payload_len(a) < bytes)
		return false;
	memcpy(ret, mnl_attr_get_payload(a), bytes);
	return true;
}

bool attr_u32(const struct nlattr *a, uint32_t *ret)
{
	return attr_bytes(a, ret, sizeof(*ret));
}

bool attr_u16(const struct nlattr *a, uint16_t *ret)
{
	return attr_bytes(a, ret, sizeof(*ret));
}

bool attr_u8(const struct nlattr *a, uint8_t *ret)
{
	return attr_bytes(a, ret, sizeof(*ret));
}

/* A string that fits, with or without its end. */
bool attr_name(const struct nlattr *a, char *ret, size_t size)
{
	size_t n;

	if (!a)
		return false;
	n = strnlen(mnl_attr_get_payload(a), mnl_attr_get_payload_len(a));
	if (n >= size)
		return false;
	memcpy(ret, mnl_attr_get_payload(a), n);
	memset(ret + n, 0, size - n);
	return true;
}

uint8_t attr_address(const struct nlattr *a, uint8_t ret[16])
{
	size_t n = a ? mnl_attr_get_payload_len(a) : 0;

	if (n != 4 && n != 16)
		return 0;
	memset(ret, 0, 16);
	memcpy(ret, mnl_attr_get_payload(a), n);
	return n == 4 ? 4 : 6;
}
