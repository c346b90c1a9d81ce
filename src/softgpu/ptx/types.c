/* SPDX-License-Identifier: Apache-2.0 */
/* Types and special registers: their names and widths. */
#include "softgpu/ptx/impl.h"

static const struct {
	const char *name;
	uint8_t bits;
} types[] = {
	[RBT_PTX_NONE] = {"none", 0},
	[RBT_PTX_B8] = {"b8", 8},
	[RBT_PTX_B16] = {"b16", 16},
	[RBT_PTX_B32] = {"b32", 32},
	[RBT_PTX_B64] = {"b64", 64},
	[RBT_PTX_U8] = {"u8", 8},
	[RBT_PTX_U16] = {"u16", 16},
	[RBT_PTX_U32] = {"u32", 32},
	[RBT_PTX_U64] = {"u64", 64},
	[RBT_PTX_S8] = {"s8", 8},
	[RBT_PTX_S16] = {"s16", 16},
	[RBT_PTX_S32] = {"s32", 32},
	[RBT_PTX_S64] = {"s64", 64},
	[RBT_PTX_F16] = {"f16", 16},
	[RBT_PTX_BF16] = {"bf16", 16},
	[RBT_PTX_F16X2] = {"f16x2", 32},
	[RBT_PTX_BF16X2] = {"bf16x2", 32},
	[RBT_PTX_F32] = {"f32", 32},
	[RBT_PTX_F64] = {"f64", 64},
	[RBT_PTX_PRED] = {"pred", 1},
};
enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

static bool equal(const char *a, const char *b, size_t b_length)
{
	return strlen(a) == b_length && memcmp(a, b, b_length) == 0;
}

enum rbt_ptx_type ptx_type_of(const char *text, size_t length)
{
	for (unsigned i = 1; i < TYPE_COUNT; i++) {
		if (equal(types[i].name, text, length)) {
			return (enum rbt_ptx_type)i;
		}
	}
	return RBT_PTX_NONE;
}

const char *ptx_type_name(unsigned type)
{
	return type < TYPE_COUNT ? types[type].name : "?";
}

unsigned rbt_ptx_type_bits(enum rbt_ptx_type type)
{
	return (unsigned)type < TYPE_COUNT ? types[type].bits : 0;
}

bool ptx_is_float(unsigned type)
{
	return type >= RBT_PTX_F16 && type <= RBT_PTX_F64;
}

/* f16, bf16, or two of them. */
bool ptx_is_half(unsigned type)
{
	return type >= RBT_PTX_F16 && type <= RBT_PTX_BF16X2;
}

bool ptx_is_signed(unsigned type)
{
	return type >= RBT_PTX_S8 && type <= RBT_PTX_S64;
}

static const char *const sregs[RBT_PTX_SREG_COUNT] = {
	[RBT_PTX_SREG_TID_X] = "%tid.x",
	[RBT_PTX_SREG_TID_Y] = "%tid.y",
	[RBT_PTX_SREG_TID_Z] = "%tid.z",
	[RBT_PTX_SREG_NTID_X] = "%ntid.x",
	[RBT_PTX_SREG_NTID_Y] = "%ntid.y",
	[RBT_PTX_SREG_NTID_Z] = "%ntid.z",
	[RBT_PTX_SREG_CTAID_X] = "%ctaid.x",
	[RBT_PTX_SREG_CTAID_Y] = "%ctaid.y",
	[RBT_PTX_SREG_CTAID_Z] = "%ctaid.z",
	[RBT_PTX_SREG_NCTAID_X] = "%nctaid.x",
	[RBT_PTX_SREG_NCTAID_Y] = "%nctaid.y",
	[RBT_PTX_SREG_NCTAID_Z] = "%nctaid.z",
	[RBT_PTX_SREG_LANEID] = "%laneid",
	[RBT_PTX_SREG_WARPID] = "%warpid",
	[RBT_PTX_SREG_NWARPID] = "%nwarpid",
	[RBT_PTX_SREG_SMID] = "%smid",
	[RBT_PTX_SREG_NSMID] = "%nsmid",
	[RBT_PTX_SREG_LANEMASK_EQ] = "%lanemask_eq",
	[RBT_PTX_SREG_LANEMASK_LT] = "%lanemask_lt",
	[RBT_PTX_SREG_LANEMASK_LE] = "%lanemask_le",
	[RBT_PTX_SREG_LANEMASK_GT] = "%lanemask_gt",
	[RBT_PTX_SREG_LANEMASK_GE] = "%lanemask_ge",
	[RBT_PTX_SREG_CLOCK] = "%clock",
	[RBT_PTX_SREG_CLOCK_HI] = "%clock_hi",
	[RBT_PTX_SREG_GLOBALTIMER_LO] = "%globaltimer_lo",
	[RBT_PTX_SREG_GLOBALTIMER_HI] = "%globaltimer_hi",
	[RBT_PTX_SREG_DYNAMIC_SMEM_SIZE] = "%dynamic_smem_size",
	[RBT_PTX_SREG_TOTAL_SMEM_SIZE] = "%total_smem_size",
	[RBT_PTX_SREG_GRIDID] = "%gridid",
	[RBT_PTX_SREG_CLOCK64] = "%clock64",
	[RBT_PTX_SREG_GLOBALTIMER] = "%globaltimer",
};

/* `dim` is "x" of %tid.x, or NULL. Negative: there is no such register. */
int ptx_sreg_of(const char *name, size_t name_length, const char *dim, size_t dim_length)
{
	for (int i = 0; i < RBT_PTX_SREG_COUNT; i++) {
		const char *dot = strchr(sregs[i], '.');
		size_t length = dot != NULL ? (size_t)(dot - sregs[i]) : strlen(sregs[i]);

		if (length != name_length || memcmp(sregs[i], name, length) != 0 ||
			(dot != NULL) != (dim != NULL)) {
			continue;
		}
		if (dot == NULL || equal(dot + 1, dim, dim_length)) {
			return i;
		}
	}
	return -1;
}

const char *ptx_sreg_name(unsigned sreg)
{
	return sreg < RBT_PTX_SREG_COUNT ? sregs[sreg] : "?";
}
