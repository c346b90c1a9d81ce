/* SPDX-License-Identifier: Apache-2.0 */
/* Which register file each field of an operation names: for reading and for checking. */
#include "softgpu/ptx/impl.h"

/*
 * By the longest prefix of the operation's text: d, a, b, c, e. t: as wide as the number at the end
 * of the text says, d: twice that, w: 32 bits, q: 64 bits, p: a predicate, '-': not a slot.
 */
static const struct {
	const char *prefix, *shape;
} shapes[] = {
	{"add.", "ttt"},
	{"sub.", "ttt"},
	{"mul.", "ttt"},
	{"mul.wide.", "dtt"},
	{"mad.", "tttt"},
	{"mad.wide.", "dttd"},
	{"div.", "ttt"},
	{"rem.", "ttt"},
	{"neg.", "tt"},
	{"abs.", "tt"},
	{"min.", "ttt"},
	{"max.", "ttt"},
	{"addx.", "ttt"},
	{"subx.", "ttt"},
	{"madx.", "tttt"},
	{"fma.", "tttt"},
	{"sqrt.", "tt"},
	{"rcp.", "tt"},
	{"rsqrt.", "tt"},
	{"ex2.", "tt"},
	{"lg2.", "tt"},
	{"sin.", "tt"},
	{"cos.", "tt"},
	{"tanh.", "tt"},
	{"copysign.", "ttt"},
	{"testp.", "pt"},
	{"and.", "ttt"},
	{"or.", "ttt"},
	{"xor.", "ttt"},
	{"not.", "tt"},
	{"shl.", "ttw"},
	{"shr.", "ttw"},
	{"shf.", "tttt"},
	{"bfe.", "ttww"},
	{"bfi.", "tttww"},
	{"bfind.", "wt"},
	{"brev.", "tt"},
	{"clz.", "wt"},
	{"popc.", "wt"},
	{"prmt.", "tttt"},
	{"lop3.", "tttt"},
	{"and.pred", "ppp"},
	{"or.pred", "ppp"},
	{"xor.pred", "ppp"},
	{"mov.pred", "pp"},
	{"setp.", "pttp"},
	{"set.", "wttp"},
	{"selp.", "tttp"},
	{"slct.b32", "wwww"},
	{"slct.b64", "qqqw"},
	{"mov.", "tt"},
	{"sreg.", "t"},
	{"cvt.pair", "www"},
	{"cvta", "qq"},
	{"isspacep", "pq"},
	{"membar", ""},
	{"bar.sync", "-ww"},
	{"bar.arrive", "-ww"},
	{"bar.red", "wwwp"},
	{"bar.warp.sync", "-w"},
	{"shfl", "wwwww"},
	{"vote", "p--pw"},
	{"match", "ww--w"},
	{"redux", "ww--w"},
	{"activemask", "w"},
	{"call.ind", "-q"},
	{"nanosleep", "-w"},
};

static char width_char(unsigned bits)
{
	return bits == 64 ? 'q' : 'w';
}

static unsigned bits_in(const char *text)
{
	size_t length = strlen(text);

	return length >= 2 && strcmp(text + length - 2, "64") == 0   ? 64
	       : length >= 2 && strcmp(text + length - 2, "16") == 0 ? 16
								     : 32;
}

static void by_shape(const char *text, char *ret_files)
{
	const char *shape = "";
	size_t best = 0;
	unsigned bits = bits_in(text);

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		size_t length = strlen(shapes[i].prefix);

		if (length > best && strncmp(text, shapes[i].prefix, length) == 0) {
			best = length;
			shape = shapes[i].shape;
		}
	}
	for (unsigned i = 0; shape[i] != '\0'; i++) {
		char *file = &ret_files[i == 0 ? 0 : i + 3];

		*file = shape[i];
		if (shape[i] == 't') {
			*file = width_char(bits);
		} else if (shape[i] == 'd') {
			*file = width_char(2 * bits);
		}
	}
}

/* Instructions whose fields depend on more than the operation. */
static void by_instruction(const struct rbt_ptx_inst *inst, char *ret_files)
{
	char type = width_char(rbt_ptx_type_bits(inst->type));
	unsigned n = inst->mod;

	switch (inst->op) {
	case RBT_PTX_LD:
	case RBT_PTX_ST:
		memset(ret_files, width_char(inst->op == RBT_PTX_LD ? inst->dbits : inst->sbits),
			n);
		ret_files[4] = (inst->flags & RBT_PTX_ADDR32) != 0 ? 'w' : 'q';
		break;
	case RBT_PTX_ATOM:
		ret_files[0] = ret_files[5] = ret_files[6] = type;
		ret_files[4] = (inst->flags & RBT_PTX_ADDR32) != 0 ? 'w' : 'q';
		break;
	case RBT_PTX_PACK:
		ret_files[0] = width_char(inst->dbits);
		memset(ret_files + 4, 'w', n);
		break;
	case RBT_PTX_UNPACK:
		memset(ret_files, 'w', n);
		ret_files[4] = width_char(inst->sbits);
		break;
	case RBT_PTX_CVT_II:
	case RBT_PTX_CVT_IF:
	case RBT_PTX_CVT_FI:
	case RBT_PTX_CVT_FF:
		ret_files[0] = width_char(inst->dbits);
		ret_files[4] = width_char(inst->sbits);
		break;
	case RBT_PTX_MATCH:
		ret_files[4] = type;
		ret_files[1] = 'p';
		break;
	default:
		break;
	}
}

void rbt_ptx_files(const struct rbt_ptx_inst *inst, char ret_files[8])
{
	const uint16_t fields[8] = {
		inst->d[0], inst->d[1], inst->d[2], inst->d[3], inst->a, inst->b, inst->c, inst->e};

	memset(ret_files, '-', 8);
	by_shape(rbt_ptx_op_name(inst->op), ret_files);
	by_instruction(inst, ret_files);
	if (inst->op == RBT_PTX_SHFL ||
		(inst->op >= RBT_PTX_SETP_S16 && inst->op <= RBT_PTX_SETP_HALF)) {
		ret_files[1] = 'p';
	}
	if (inst->op == RBT_PTX_BAR_RED && inst->mod != RBT_PTX_BARRED_POPC) {
		ret_files[0] = 'p';
	}
	if (inst->op == RBT_PTX_VOTE && inst->mod == RBT_PTX_VOTE_BALLOT) {
		ret_files[0] = 'w';
	}
	for (unsigned i = 0; i < 8; i++) {
		if (fields[i] == RBT_PTX_NO_SLOT) {
			ret_files[i] = '-';
		}
	}
}
