/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoded PTX: what rbt_ptx_parse() (ptx.h) makes and the executor runs. Nothing here changes after
 * parsing: a module may be shared by contexts and threads; all run-time state is the executor's.
 * Everything an instruction refers to has been checked: slots are within the function's counts and
 * of the right file, targets within its instructions, indices within their tables. Fields that an
 * operation does not use are 0, slot fields RBT_PTX_NO_SLOT.
 *
 * Registers. A function numbers its registers as slots in three files; a warp has 32 lanes of each:
 *   32-bit  uint32_t r32[n32][32]   .b8 .b16 .b32 .f16 .bf16 .f16x2 .bf16x2 .f32, zero-extended
 *   64-bit  uint64_t r64[n64][32]   .b64 .f64
 *   preds   uint32_t pred[npred]    one bit a lane
 * A field that is a slot names its file by the operation's type (ops.h; a register of up to 32 bits
 * is in the 32-bit file). Slots [0, nregs32) are registers; [nregs32, n32) hold consts32, the same
 * in every lane, so that no operation has to ask whether an operand is an immediate: the executor
 * writes them when it makes a frame, they never change and need not be saved. Likewise 64-bit.
 * Predicate slot RBT_PTX_PRED_TRUE is all ones, also to be set when a frame is made, and is never
 * written. Registers start as zero. A destination may be one of the sources, LD's too: read
 * the address of all lanes before writing.
 *
 * Guard. An instruction acts on the active lanes in pred[guard], or not in it with flag
 * NEG_GUARD: for most that is RBT_PTX_PRED_TRUE, so there is no case without a guard.
 *
 * Frames. Each call makes a new frame of the callee's registers; so functions may recurse. Beside
 * registers a frame has, for each lane, frame_size bytes of parameters (space FRAME: formals,
 * results and the arguments of calls it makes, at offsets from 0) and local_size bytes
 * of local memory, at an address aligned to local_align that the executor assigns ("base" below).
 *
 * Addresses. LD, ST, ATOM access d (or b) at [a + imm], where a is a 64-bit slot (a 32-bit one with
 * flag ADDR32, zero-extended) or RBT_PTX_NO_SLOT: imm alone. Element k of a vector is at
 * + k * size of type. `type` is the element in memory, dbits (LD) or sbits (ST) the registers'
 * width: wider registers get the value extended by type's sign, narrower do not happen.
 *   GENERIC  global, or the window of shared or local memory (the executor's choice, CVTA)
 *   GLOBAL   equal to generic. a may be a constant slot that holds a variable's address
 *   CONST    equal to generic too: the loader puts .const variables in device memory
 *   SHARED   0 is the start of the block's shared memory
 *   LOCAL    0 is the start of the thread's local memory (the frame's base included)
 *   PARAM    the kernel's parameter buffer, the same for all lanes; read only, in entries only
 *   FRAME    this frame's parameter bytes of each lane: offsets, in range and aligned when a is
 *            RBT_PTX_NO_SLOT; with a slot (the address of a formal was taken) not known to be in
 *            range, LD only
 * The flag UNIFORM says that a is a constant slot or none: all lanes have the same address.
 * Nothing else about an address has been checked, alignment neither.
 *
 * Control flow. The pc is an index into insts; after an instruction it is the next one, and the
 * last instruction is always an unguarded BRA, RET, EXIT or TRAP. BRA: lanes that the guard
 * selects go to `target`. With UNI, or with an unguarded BRA, they all do (UNI on a guarded branch
 * is the program's word, not checked). `reconv` is the immediate post-dominator, where diverged
 * lanes meet again; RBT_PTX_NO_INDEX when that is the end of the function. LEADER marks every
 * instruction that is a branch target, follows a branch or an end, or is 0. There is no RET in an
 * entry: it is decoded as EXIT.
 * CALL, CALL_IND: `index` is in calls.
 */
#ifndef RBT_SOFTGPU_PTX_IR_H
#define RBT_SOFTGPU_PTX_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/ptx/ops.h"

#define RBT_PTX_NO_SLOT   UINT16_MAX
#define RBT_PTX_NO_INDEX  UINT32_MAX
#define RBT_PTX_PRED_TRUE 0

/* What a function's address is, in memory and registers. Chosen to be no address of memory. */
#define RBT_PTX_FUNC_ADDRESS(index) (0x7074780000000000ull | (uint64_t)(index) << 4)

enum rbt_ptx_op {
#define X(name, text) RBT_PTX_##name,
	RBT_PTX_OPS(X)
#undef X
		RBT_PTX_OP_COUNT,
};

/* clang-format off */
enum rbt_ptx_type {
	RBT_PTX_NONE = 0,
	RBT_PTX_B8, RBT_PTX_B16, RBT_PTX_B32, RBT_PTX_B64,
	RBT_PTX_U8, RBT_PTX_U16, RBT_PTX_U32, RBT_PTX_U64,
	RBT_PTX_S8, RBT_PTX_S16, RBT_PTX_S32, RBT_PTX_S64,
	RBT_PTX_F16, RBT_PTX_BF16, RBT_PTX_F16X2, RBT_PTX_BF16X2, RBT_PTX_F32, RBT_PTX_F64,
	RBT_PTX_PRED,
};
/* clang-format on */

enum rbt_ptx_space {
	RBT_PTX_SPACE_GENERIC = 0,
	RBT_PTX_SPACE_GLOBAL,
	RBT_PTX_SPACE_CONST,
	RBT_PTX_SPACE_SHARED,
	RBT_PTX_SPACE_LOCAL,
	RBT_PTX_SPACE_PARAM,
	RBT_PTX_SPACE_FRAME,
};

enum rbt_ptx_flag {
	RBT_PTX_NEG_GUARD = 1 << 0,
	RBT_PTX_NEG_A = 1 << 1,
	RBT_PTX_NEG_B = 1 << 2,
	RBT_PTX_NEG_C = 1 << 3,
	RBT_PTX_FTZ = 1 << 4, /* subnormal operands and results become zeros of their sign */
	RBT_PTX_SAT = 1 << 5,
	RBT_PTX_CC_IN = 1 << 6,
	RBT_PTX_CC_OUT = 1 << 7,
	RBT_PTX_UNI = 1 << 8,
	RBT_PTX_LEADER = 1 << 9,
	RBT_PTX_ADDR32 = 1 << 10,
	RBT_PTX_UNIFORM = 1 << 11,
	RBT_PTX_STRONG = 1 << 12,  /* .volatile .relaxed .acquire .release */
	RBT_PTX_ALIGNED = 1 << 13, /* all threads of the warp execute this barrier together */
	RBT_PTX_RELU = 1 << 14,    /* results below zero become zero; NaN stays */
};

/* To nearest even is 0: what most instructions have. The I forms round to an integer (cvt). */
enum rbt_ptx_round {
	RBT_PTX_RN = 0,
	RBT_PTX_RZ,
	RBT_PTX_RM,
	RBT_PTX_RP,
	RBT_PTX_RNI,
	RBT_PTX_RZI,
	RBT_PTX_RMI,
	RBT_PTX_RPI,
	RBT_PTX_APPROX, /* at least as exact as the hardware's approximation; RN is fine */
};

/* On floats the first six are false when an operand is NaN (NE too), the U forms true. */
enum rbt_ptx_cmp {
	RBT_PTX_EQ = 0,
	RBT_PTX_NE,
	RBT_PTX_LT,
	RBT_PTX_LE,
	RBT_PTX_GT,
	RBT_PTX_GE,
	RBT_PTX_EQU,
	RBT_PTX_NEU,
	RBT_PTX_LTU,
	RBT_PTX_LEU,
	RBT_PTX_GTU,
	RBT_PTX_GEU,
	RBT_PTX_NUM, /* neither is NaN */
	RBT_PTX_NAN, /* one is */
};

enum rbt_ptx_bool { RBT_PTX_BOOL_NONE = 0, RBT_PTX_BOOL_AND, RBT_PTX_BOOL_OR, RBT_PTX_BOOL_XOR };

/* Bits of mod of MIN and MAX on floats: a NaN wins; of the magnitudes, with both signs' product. */
enum rbt_ptx_minmax { RBT_PTX_MINMAX_NAN = 1, RBT_PTX_MINMAX_XORSIGN = 2 };

enum rbt_ptx_testp {
	RBT_PTX_TESTP_FINITE = 0,
	RBT_PTX_TESTP_INFINITE,
	RBT_PTX_TESTP_NUMBER,
	RBT_PTX_TESTP_NOTANUMBER,
	RBT_PTX_TESTP_NORMAL,
	RBT_PTX_TESTP_SUBNORMAL,
};

enum rbt_ptx_prmt {
	RBT_PTX_PRMT_INDEX = 0, /* the default: c selects each byte */
	RBT_PTX_PRMT_F4E,
	RBT_PTX_PRMT_B4E,
	RBT_PTX_PRMT_RC8,
	RBT_PTX_PRMT_ECL,
	RBT_PTX_PRMT_ECR,
	RBT_PTX_PRMT_RC16,
};

/* Of ATOM and REDUX. INC: old >= b ? 0 : old + 1. DEC: old == 0 || old > b ? b : old - 1. */
enum rbt_ptx_rmw {
	RBT_PTX_RMW_ADD = 0,
	RBT_PTX_RMW_MIN,
	RBT_PTX_RMW_MAX,
	RBT_PTX_RMW_AND,
	RBT_PTX_RMW_OR,
	RBT_PTX_RMW_XOR,
	RBT_PTX_RMW_EXCH,
	RBT_PTX_RMW_CAS,
	RBT_PTX_RMW_INC,
	RBT_PTX_RMW_DEC,
};

enum rbt_ptx_barred { RBT_PTX_BARRED_POPC = 0, RBT_PTX_BARRED_AND, RBT_PTX_BARRED_OR };
enum rbt_ptx_shfl { RBT_PTX_SHFL_UP = 0, RBT_PTX_SHFL_DOWN, RBT_PTX_SHFL_BFLY, RBT_PTX_SHFL_IDX };
enum rbt_ptx_vote { RBT_PTX_VOTE_ALL = 0, RBT_PTX_VOTE_ANY, RBT_PTX_VOTE_UNI, RBT_PTX_VOTE_BALLOT };

/* 32 bits each but the last three. */
/* clang-format off */
enum rbt_ptx_sreg {
	RBT_PTX_SREG_TID_X = 0, RBT_PTX_SREG_TID_Y, RBT_PTX_SREG_TID_Z,
	RBT_PTX_SREG_NTID_X, RBT_PTX_SREG_NTID_Y, RBT_PTX_SREG_NTID_Z,
	RBT_PTX_SREG_CTAID_X, RBT_PTX_SREG_CTAID_Y, RBT_PTX_SREG_CTAID_Z,
	RBT_PTX_SREG_NCTAID_X, RBT_PTX_SREG_NCTAID_Y, RBT_PTX_SREG_NCTAID_Z,
	RBT_PTX_SREG_LANEID, RBT_PTX_SREG_WARPID, RBT_PTX_SREG_NWARPID,
	RBT_PTX_SREG_SMID, RBT_PTX_SREG_NSMID,
	RBT_PTX_SREG_LANEMASK_EQ, RBT_PTX_SREG_LANEMASK_LT, RBT_PTX_SREG_LANEMASK_LE,
	RBT_PTX_SREG_LANEMASK_GT, RBT_PTX_SREG_LANEMASK_GE,
	RBT_PTX_SREG_CLOCK, RBT_PTX_SREG_CLOCK_HI,
	RBT_PTX_SREG_GLOBALTIMER_LO, RBT_PTX_SREG_GLOBALTIMER_HI,
	RBT_PTX_SREG_DYNAMIC_SMEM_SIZE, RBT_PTX_SREG_TOTAL_SMEM_SIZE,
	RBT_PTX_SREG_GRIDID, RBT_PTX_SREG_CLOCK64, RBT_PTX_SREG_GLOBALTIMER,
	RBT_PTX_SREG_COUNT,
};
/* clang-format on */

struct rbt_ptx_inst {
	uint16_t op;    /* enum rbt_ptx_op */
	uint16_t guard; /* predicate slot */
	uint16_t flags; /* enum rbt_ptx_flag */
	uint8_t mod;    /* by op */
	uint8_t space;  /* enum rbt_ptx_space */
	uint8_t type, stype;
	uint8_t dbits, sbits; /* width of the registers: 8, 16, 32, 64 */
	uint16_t d[4];
	uint16_t a, b, c, e;
	uint32_t line; /* of the text, from 1 */
	union {
		int64_t imm;
		struct {
			uint32_t target, reconv;
		};
		uint32_t index;
	};
};
_Static_assert(sizeof(struct rbt_ptx_inst) == 40, "instructions are read in bulk");

/* The contents of a constant slot in a frame. */
enum rbt_ptx_const_kind {
	RBT_PTX_CONST_VALUE = 0,  /* value */
	RBT_PTX_CONST_VARIABLE,   /* address the loader gave to variables[index], + value */
	RBT_PTX_CONST_LOCAL,      /* the frame's local base + value */
	RBT_PTX_CONST_DYN_SHARED, /* the launched kernel's shared_size + value */
};

struct rbt_ptx_const {
	uint64_t value;
	uint32_t index;
	uint32_t kind;
};

/* A parameter or result. offset: in the kernel's parameter buffer; in a .func, in its FRAME. */
struct rbt_ptx_param {
	char *name;
	uint32_t size, align, offset;
	uint8_t type; /* of an element; size says how many */
};

/* An argument or result in the caller's FRAME. */
struct rbt_ptx_arg {
	uint32_t offset, size;
};

/*
 * A call copies each argument's bytes to the callee's parameter of the same index, runs, and copies
 * the results back. A direct call's counts and sizes agree with the callee; an indirect one's
 * (function is RBT_PTX_NO_INDEX, the address is in the instruction's 64-bit slot a, and may differ
 * between lanes) must be compared when it happens.
 */
struct rbt_ptx_call {
	uint32_t function;
	uint32_t nargs, nrets;
	struct rbt_ptx_arg *args; /* nargs, then nrets */
};

/* Functions without a body that the executor provides. The arguments are as in C: vprintf(format,
 * arguments in local memory, generic addresses) and __assertfail(message, file, line, function,
 * size of a character). A call of any other function without a body is an error of parsing. */
enum rbt_ptx_builtin {
	RBT_PTX_BUILTIN_NONE = 0,
	RBT_PTX_BUILTIN_VPRINTF,
	RBT_PTX_BUILTIN_ASSERTFAIL,
};

struct rbt_ptx_function {
	char *name;
	bool is_entry, has_body;
	uint8_t builtin;
	uint32_t line;

	uint32_t nparams, nrets;
	struct rbt_ptx_param *params; /* nparams, then nrets */
	uint32_t param_size;          /* of an entry's parameter buffer, at most 4096 */

	uint32_t nregs32, nregs64, npreds; /* npreds counts RBT_PTX_PRED_TRUE */
	uint32_t nconsts32, nconsts64;     /* n32 is nregs32 + nconsts32, at most 65535 */
	struct rbt_ptx_const *consts32, *consts64;

	uint32_t frame_size; /* a multiple of 16 */
	uint32_t local_size, local_align;
	/* Entries: static shared memory, the module's included, a multiple of 16. Dynamic shared
	 * memory starts there. */
	uint32_t shared_size;
	uint32_t max_ntid[3], req_ntid[3]; /* 0: not given; missing dimensions of one given: 1 */
	uint32_t min_nctapersm, max_nreg;  /* 0: not given */

	uint32_t ninsts, ncalls;
	struct rbt_ptx_inst *insts;
	struct rbt_ptx_call *calls;
};

/*
 * Written over the initialiser's bytes at offset by the loader, little-endian, size bytes (8, or 4
 * or less: truncated): the address of variables[index] + addend; with is_function, a function's.
 */
struct rbt_ptx_reloc {
	uint32_t offset, size;
	uint32_t index;
	bool is_function;
	int64_t addend;
};

/* A .global or .const variable of the module or a function. The loader gives it an address. */
struct rbt_ptx_variable {
	char *name;
	uint8_t space; /* GLOBAL or CONST */
	uint8_t type;
	bool is_extern; /* has no memory here: the loader must find it or refuse the module */
	uint32_t align; /* a power of two, at most 4096 */
	uint64_t size;
	uint8_t *init; /* NULL: zeros; else init_size bytes, the rest zeros */
	uint64_t init_size;
	uint32_t nrelocs;
	struct rbt_ptx_reloc *relocs;
};

struct rbt_ptx_module {
	uint32_t version; /* 10 * major + minor of .version */
	uint32_t target;  /* 70 of sm_70 */
	uint32_t nfunctions, nvariables;
	struct rbt_ptx_function *functions;
	struct rbt_ptx_variable *variables;
};

#endif
