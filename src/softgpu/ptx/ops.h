/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of decoded PTX, as a list of X(name, text): ir.h makes the enum, dump.c the text.
 *
 * A type in the name is what the operation computes in. I, B: the sign does not matter; S, U, F: it
 * does. Slots of registers under 32 bits hold the value zero-extended (ir.h), so an operation on
 * 16 bits that gives the same on such slots is decoded to its 32-bit form (and.b16 is AND_B32,
 * min.u16 is MIN_U32); those that remain (_I16, _S16, _U16, _B16) write zero-extended results.
 *
 * Operands are fields of struct rbt_ptx_inst; "d" is d[0]. Unless said otherwise d = a op b op c.
 */
#ifndef RBT_SOFTGPU_PTX_OPS_H
#define RBT_SOFTGPU_PTX_OPS_H

/* clang-format off */
#define RBT_PTX_OPS(X)                                                                             \
	X(NOP, "nop") /* prefetch, and what has no effect here */                                  \
	/* Integers. _LO/_HI: half of the product; _WIDE: operands of that width, result (and c)   \
	 * twice as wide. _SAT: clamps to the type. Division by zero gives all ones, its           \
	 * remainder a. */                                                                         \
	X(ADD_I16, "add.i16") X(ADD_I32, "add.i32") X(ADD_I64, "add.i64")                          \
	X(ADD_SAT_S32, "add.sat.s32")                                                              \
	X(SUB_I16, "sub.i16") X(SUB_I32, "sub.i32") X(SUB_I64, "sub.i64")                          \
	X(SUB_SAT_S32, "sub.sat.s32")                                                              \
	X(MUL_LO_I16, "mul.lo.i16") X(MUL_LO_I32, "mul.lo.i32") X(MUL_LO_I64, "mul.lo.i64")        \
	X(MUL_HI_S16, "mul.hi.s16") X(MUL_HI_U16, "mul.hi.u16") X(MUL_HI_S32, "mul.hi.s32")        \
	X(MUL_HI_U32, "mul.hi.u32") X(MUL_HI_S64, "mul.hi.s64") X(MUL_HI_U64, "mul.hi.u64")        \
	X(MUL_WIDE_S16, "mul.wide.s16") X(MUL_WIDE_U16, "mul.wide.u16")                            \
	X(MUL_WIDE_S32, "mul.wide.s32") X(MUL_WIDE_U32, "mul.wide.u32")                            \
	X(MAD_LO_I16, "mad.lo.i16") X(MAD_LO_I32, "mad.lo.i32") X(MAD_LO_I64, "mad.lo.i64")        \
	X(MAD_HI_S16, "mad.hi.s16") X(MAD_HI_U16, "mad.hi.u16") X(MAD_HI_S32, "mad.hi.s32")        \
	X(MAD_HI_U32, "mad.hi.u32") X(MAD_HI_S64, "mad.hi.s64") X(MAD_HI_U64, "mad.hi.u64")        \
	X(MAD_WIDE_S16, "mad.wide.s16") X(MAD_WIDE_U16, "mad.wide.u16")                            \
	X(MAD_WIDE_S32, "mad.wide.s32") X(MAD_WIDE_U32, "mad.wide.u32")                            \
	X(DIV_S16, "div.s16") X(DIV_U16, "div.u16")                                                \
	X(DIV_S32, "div.s32") X(DIV_U32, "div.u32")                                                \
	X(DIV_S64, "div.s64") X(DIV_U64, "div.u64")                                                \
	X(REM_S16, "rem.s16") X(REM_S32, "rem.s32") X(REM_U32, "rem.u32")                          \
	X(REM_S64, "rem.s64") X(REM_U64, "rem.u64")                                                \
	X(NEG_I16, "neg.i16") X(NEG_I32, "neg.i32") X(NEG_I64, "neg.i64")                          \
	X(ABS_S16, "abs.s16") X(ABS_S32, "abs.s32") X(ABS_S64, "abs.s64")                          \
	X(MIN_S16, "min.s16") X(MIN_S32, "min.s32") X(MIN_U32, "min.u32")                          \
	X(MIN_S64, "min.s64") X(MIN_U64, "min.u64")                                                \
	X(MAX_S16, "max.s16") X(MAX_S32, "max.s32") X(MAX_U32, "max.u32")                          \
	X(MAX_S64, "max.s64") X(MAX_U64, "max.u64")                                                \
	/* With carry: flag CC_IN adds (ADDX, MADX) or borrows (SUBX) the carry, CC_OUT writes it. \
	 * The carry is one lane mask a warp; after SUBX it is the borrow. */                      \
	X(ADDX_I32, "addx.i32") X(ADDX_I64, "addx.i64")                                            \
	X(SUBX_I32, "subx.i32") X(SUBX_I64, "subx.i64")                                            \
	X(MADX_LO_I32, "madx.lo.i32") X(MADX_LO_I64, "madx.lo.i64")                                \
	X(MADX_HI_S32, "madx.hi.s32") X(MADX_HI_U32, "madx.hi.u32")                                \
	X(MADX_HI_S64, "madx.hi.s64") X(MADX_HI_U64, "madx.hi.u64")                                \
	/* Floating point. mod: enum rbt_ptx_round; flags FTZ, SAT (clamp to [0,1], NaN gives 0).  \
	 * FMA is also mad.f32/f64. MIN, MAX: the operand that is not NaN; mod: bits of enum       \
	 * rbt_ptx_minmax. */                                                                      \
	X(ADD_F32, "add.f32") X(ADD_F64, "add.f64") X(SUB_F32, "sub.f32") X(SUB_F64, "sub.f64")    \
	X(MUL_F32, "mul.f32") X(MUL_F64, "mul.f64") X(FMA_F32, "fma.f32") X(FMA_F64, "fma.f64")    \
	X(DIV_F32, "div.f32") X(DIV_F64, "div.f64") X(NEG_F32, "neg.f32") X(NEG_F64, "neg.f64")    \
	X(ABS_F32, "abs.f32") X(ABS_F64, "abs.f64") X(MIN_F32, "min.f32") X(MIN_F64, "min.f64")    \
	X(MAX_F32, "max.f32") X(MAX_F64, "max.f64") X(SQRT_F32, "sqrt.f32")                        \
	X(SQRT_F64, "sqrt.f64") X(RCP_F32, "rcp.f32") X(RCP_F64, "rcp.f64")                        \
	X(RSQRT_F32, "rsqrt.f32") X(RSQRT_F64, "rsqrt.f64") X(EX2_F32, "ex2.f32")                  \
	X(LG2_F32, "lg2.f32") X(SIN_F32, "sin.f32") X(COS_F32, "cos.f32") X(TANH_F32, "tanh.f32")  \
	/* type is f16 or bf16, or f16x2 or bf16x2: two of them, lower and upper half by           \
	 * themselves. Rounded to nearest; flags FTZ, SAT, RELU. */                                \
	X(ADD_HALF, "add.half") X(SUB_HALF, "sub.half") X(MUL_HALF, "mul.half")                    \
	X(FMA_HALF, "fma.half") X(NEG_HALF, "neg.half") X(ABS_HALF, "abs.half")                    \
	X(MIN_HALF, "min.half") X(MAX_HALF, "max.half") X(EX2_HALF, "ex2.half")                    \
	X(TANH_HALF, "tanh.half")                                                                  \
	/* The magnitude of b with the sign of a. */                                               \
	X(COPYSIGN_F32, "copysign.f32") X(COPYSIGN_F64, "copysign.f64")                            \
	/* d is a predicate; mod: enum rbt_ptx_testp. */                                           \
	X(TESTP_F32, "testp.f32") X(TESTP_F64, "testp.f64")                                        \
	/* Bits. Shift amounts (b) are 32-bit slots, clamped to the width. */                      \
	X(AND_B32, "and.b32") X(AND_B64, "and.b64") X(OR_B32, "or.b32") X(OR_B64, "or.b64")        \
	X(XOR_B32, "xor.b32") X(XOR_B64, "xor.b64")                                                \
	X(NOT_B16, "not.b16") X(NOT_B32, "not.b32") X(NOT_B64, "not.b64")                          \
	X(SHL_B16, "shl.b16") X(SHL_B32, "shl.b32") X(SHL_B64, "shl.b64")                          \
	X(SHR_S16, "shr.s16") X(SHR_S32, "shr.s32") X(SHR_U32, "shr.u32")                          \
	X(SHR_S64, "shr.s64") X(SHR_U64, "shr.u64")                                                \
	/* SHF: b:a shifted by c; d is the upper (L) or lower (R) 32 bits. mod: 0 wrap (c & 31),   \
	 * 1 clamp (min(c, 32)). */                                                                \
	X(SHF_L_B32, "shf.l.b32") X(SHF_R_B32, "shf.r.b32")                                        \
	/* BFE: a, position b, length c (32-bit slots, low 8 bits used). BFI: bits a into b,       \
	 * position c, length e. BFIND: d is a 32-bit slot, mod 1: shiftamt. */                    \
	X(BFE_S32, "bfe.s32") X(BFE_U32, "bfe.u32") X(BFE_S64, "bfe.s64") X(BFE_U64, "bfe.u64")    \
	X(BFI_B32, "bfi.b32") X(BFI_B64, "bfi.b64")                                                \
	X(BFIND_S32, "bfind.s32") X(BFIND_U32, "bfind.u32")                                        \
	X(BFIND_S64, "bfind.s64") X(BFIND_U64, "bfind.u64")                                        \
	X(BREV_B32, "brev.b32") X(BREV_B64, "brev.b64")                                            \
	/* CLZ, POPC: d is a 32-bit slot also of the B64 forms. */                                 \
	X(CLZ_B32, "clz.b32") X(CLZ_B64, "clz.b64") X(POPC_B32, "popc.b32")                        \
	X(POPC_B64, "popc.b64")                                                                    \
	X(PRMT_B32, "prmt.b32") /* mod: enum rbt_ptx_prmt */                                       \
	X(LOP3_B32, "lop3.b32") /* mod: the table, immLut */                                       \
	/* Predicates: every operand is a predicate slot; NEG_A, NEG_B negate a, b. */             \
	X(AND_PRED, "and.pred") X(OR_PRED, "or.pred") X(XOR_PRED, "xor.pred")                      \
	X(MOV_PRED, "mov.pred") /* also not.pred, and constants: slot 0, NEG_A for false */        \
	/* SETP: d[0] = (a cmp b) bool c; d[1] if any = !(a cmp b) bool c. mod: enum rbt_ptx_cmp;  \
	 * stype: enum rbt_ptx_bool, c a predicate slot with NEG_C. SET: d is all ones, or 1.0     \
	 * when type is F32, where SETP's d[0] would be true; else 0. */                           \
	X(SETP_S16, "setp.s16") X(SETP_S32, "setp.s32") X(SETP_U32, "setp.u32")                    \
	X(SETP_S64, "setp.s64") X(SETP_U64, "setp.u64") X(SETP_F32, "setp.f32")                    \
	X(SETP_F64, "setp.f64")                                                                    \
	/* type as above; of two halves, d[0] is about the lower and d[1] about the upper ones. */ \
	X(SETP_HALF, "setp.half")                                                                  \
	X(SET_S16, "set.s16") X(SET_S32, "set.s32") X(SET_U32, "set.u32") X(SET_S64, "set.s64")    \
	X(SET_U64, "set.u64") X(SET_F32, "set.f32") X(SET_F64, "set.f64")                          \
	/* d = c ? a : b, c a predicate slot (NEG_C). */                                           \
	X(SELP_B32, "selp.b32") X(SELP_B64, "selp.b64")                                            \
	/* d = c >= 0 ? a : b; the last type is c's. FTZ on c. */                                  \
	X(SLCT_B32_S32, "slct.b32.s32") X(SLCT_B64_S32, "slct.b64.s32")                            \
	X(SLCT_B32_F32, "slct.b32.f32") X(SLCT_B64_F32, "slct.b64.f32")                            \
	/* Moves. SREG: a is an enum rbt_ptx_sreg. PACK: d = {a, b, c, e}, lowest first, mod of    \
	 * them, each dbits / mod wide. UNPACK: d[0..mod) = parts of a, each sbits / mod wide. */  \
	X(MOV_B32, "mov.b32") X(MOV_B64, "mov.b64")                                                \
	X(SREG_B32, "sreg.b32") X(SREG_B64, "sreg.b64")                                            \
	X(PACK, "pack") X(UNPACK, "unpack")                                                        \
	/* From stype, in a register of sbits, to type, extended by type's sign into a register    \
	 * of dbits. mod: enum rbt_ptx_round; FTZ, SAT, RELU. I integer, F float (f16, bf16 too).  \
	 */                                                                                        \
	X(CVT_II, "cvt.ii") X(CVT_IF, "cvt.if") X(CVT_FI, "cvt.fi") X(CVT_FF, "cvt.ff")            \
	/* f32 a to the upper and b to the lower half of an f16x2 or bf16x2; mod RN, RZ; RELU. */  \
	X(CVT_PAIR, "cvt.pair")                                                                    \
	/* An address in `space` (shared, local) to generic, and back. For global and const the    \
	 * decoder writes MOV_B64. ISSPACEP: d is a predicate. All 64-bit. */                      \
	X(CVTA, "cvta") X(CVTA_TO, "cvta.to") X(ISSPACEP, "isspacep")                              \
	/* Memory: ir.h, "Addresses". mod: elements (1, 2, 4) in d[]: LD writes, ST reads. */      \
	X(LD, "ld") X(ST, "st")                                                                    \
	/* mod: enum rbt_ptx_rmw on type; b the operand (CAS: b compared, c new value); d the old  \
	 * value, RBT_PTX_NO_SLOT for red. ADD is of u32 s32 u64 s64 and all floats; MIN, MAX u32  \
	 * s32 u64 s64; AND, OR, XOR, EXCH, CAS b32 b64, CAS b16 too; INC, DEC u32. */             \
	X(ATOM, "atom")                                                                            \
	/* mod: 0 cta, 1 gpu, 2 system. */                                                         \
	X(MEMBAR, "membar")                                                                        \
	/* a: slot of the barrier's number; b: slot of the thread count, or RBT_PTX_NO_SLOT for    \
	 * all. RED: mod enum rbt_ptx_barred, c the predicate (NEG_C); d a 32-bit slot (POPC) or a \
	 * predicate. WARP_SYNC: a: slot of the member mask. */                                    \
	X(BAR_SYNC, "bar.sync") X(BAR_ARRIVE, "bar.arrive") X(BAR_RED, "bar.red")                  \
	X(BAR_WARP_SYNC, "bar.warp.sync")                                                          \
	/* e: slot of the member mask; RBT_PTX_NO_SLOT: the active lanes (forms without .sync).    \
	 * SHFL: value a, lane b, clamp c, d[1] a predicate or none; mod enum rbt_ptx_shfl.        \
	 * VOTE: predicate c (NEG_C), mod enum rbt_ptx_vote; d a predicate, for BALLOT 32 bits.    \
	 * MATCH: a of type, mod 0 any, 1 all; d 32 bits, d[1] a predicate or none.                \
	 * REDUX: a of type, mod enum rbt_ptx_rmw. */                                              \
	X(SHFL, "shfl") X(VOTE, "vote") X(MATCH, "match") X(REDUX, "redux")                        \
	X(ACTIVEMASK, "activemask")                                                                \
	/* Control flow: ir.h, "Control flow". */                                                  \
	X(BRA, "bra") X(CALL, "call") X(CALL_IND, "call.ind") X(RET, "ret") X(EXIT, "exit")        \
	X(TRAP, "trap") X(BRKPT, "brkpt") X(NANOSLEEP, "nanosleep") /* a: slot, ns */
/* clang-format on */

#endif
