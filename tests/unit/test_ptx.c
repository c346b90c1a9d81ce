/* SPDX-License-Identifier: Apache-2.0 */
/* PTX to its decoded form: what each instruction becomes, and what is refused with which words. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test_ptx_parse.h"

#define HEAD ".version 6.4\n.target sm_70\n.address_size 64\n"
#define REGS                                                                                       \
	".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;"  \
	" .reg .f64 %fd<9>;\n"

/* The body begins on line 5. */
#define START HEAD ".visible .entry k(.param .u64 x, .param .b32 y) {" REGS

static char *dump_of(const struct rbt_ptx_module *module)
{
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	rbt_ptx_dump(module, file);
	fclose(file);
	return text;
}

/* A kernel of this body has this line in its dump. */
static void check_decoded(const char *body, const char *line)
{
	struct rbt_ptx_module *module;
	char *text = NULL, *dump = NULL;
	bool found = false;

	if (asprintf(&text, "%s%s\nret;\n}", START, body) < 0) {
		abort();
	}
	module = ptx_parse(text, strlen(text));
	if (module != NULL) {
		dump = dump_of(module);
		found = strstr(dump, line) != NULL;
	}
	if (!found) {
		fprintf(stderr, "%s\nhas no '%s':\n%s\n", body, line, dump != NULL ? dump : "");
	}
	CHECK(found);
	rbt_ptx_module_destroy(module);
	free(dump);
	free(text);
}

/* The text is refused with this message. */
static void check_refused(const char *text, int err, const char *message)
{
	struct rbt_ptx_module *module = (struct rbt_ptx_module *)-1;
	struct rbt_ptx_error error;
	int r = rbt_ptx_parse(text, strlen(text), &module, &error);

	CHECK_INT(r, -err);
	CHECK(module == (struct rbt_ptx_module *)-1);
	if (r < 0 && strcmp(error.text, message) != 0) {
		fprintf(stderr, "'%s', not '%s'\n", error.text, message);
		CHECK(!"the message");
	}
	if (r == 0) {
		rbt_ptx_module_destroy(module);
	}
}

static void check_refused_body(const char *body, int err, const char *message)
{
	char *text;

	if (asprintf(&text, "%s%s\nret;\n}", START, body) < 0) {
		abort();
	}
	check_refused(text, err, message);
	free(text);
}

static void test_integers(void)
{
	check_decoded("add.s32 %r1, %r2, -1;", "add.i32 r0, r1, #0xffffffff s32 ;");
	check_decoded("add.u16 %rs1, %rs2, -1;", "add.i16 r0, r1, #0xffff u16 ;");
	check_decoded("add.sat.s32 %r1, %r2, %r3;", "add.sat.s32 r0, r1, r2 s32 ;");
	check_decoded("sub.s64 %rd1, %rd2, %rd3;", "sub.i64 q0, q1, q2 s64 ;");
	check_decoded("mul.wide.s32 %rd1, %r2, 4;", "mul.wide.s32 q0, r0, #0x4 s32 ;");
	check_decoded("mad.wide.u16 %r1, %rs2, 3, %r4;", "mad.wide.u16 r0, r1, #0x3, r2 u16 ;");
	check_decoded("mul.hi.u64 %rd1, %rd2, %rd3;", "mul.hi.u64 q0, q1, q2 u64 ;");
	check_decoded("mad.lo.s32 %r1, %r2, %r3, %r4;", "mad.lo.i32 r0, r1, r2, r3 s32 ;");
	check_decoded("add.cc.u32 %r1, %r2, %r3;", "addx.i32 r0, r1, r2 u32 ccout ;");
	check_decoded("addc.cc.u32 %r1, %r2, %r3;", "addx.i32 r0, r1, r2 u32 ccin ccout ;");
	check_decoded("subc.u64 %rd1, %rd2, 0;", "subx.i64 q0, q1, #0x0 u64 ccin ;");
	check_decoded(
		"mad.lo.cc.u32 %r1, %r2, %r3, %r4;", "madx.lo.i32 r0, r1, r2, r3 u32 ccout ;");
	check_decoded("madc.hi.u32 %r1, %r2, %r3, %r4;", "madx.hi.u32 r0, r1, r2, r3 u32 ccin ;");
	check_decoded("div.u16 %rs1, %rs2, %rs3;", "div.u16 r0, r1, r2 u16 ;");
	check_decoded("min.u16 %rs1, %rs2, %rs3;", "min.u32 r0, r1, r2 u16 ;");
	check_decoded("max.s16 %rs1, %rs2, %rs3;", "max.s16 r0, r1, r2 s16 ;");
	check_decoded("rem.s64 %rd1, %rd2, %rd3;", "rem.s64 q0, q1, q2 s64 ;");
	/* Rare ones are made of common ones. */
	check_decoded("sad.s32 %r1, %r2, %r3, %r4;", "sub.i32 r6, r4, r5 s32 ;");
	check_decoded("sad.s32 %r1, %r2, %r3, %r4;", "add.i32 r0, r6, r3 s32 ;");
	check_decoded("cnot.b32 %r1, %r2;", "selp.b32 r0, #0x1, #0x0, p1 b32 ;");
	check_decoded("mul24.lo.s32 %r1, %r2, %r3;", "mul.lo.i32 r0, r3, r4 s32 ;");
}

static void test_bits(void)
{
	check_decoded("and.b16 %rs1, %rs2, 255;", "and.b32 r0, r1, #0xff b16 ;");
	check_decoded("not.b16 %rs1, %rs2;", "not.b16 r0, r1 b16 ;");
	check_decoded("shl.b64 %rd1, %rd2, 3;", "shl.b64 q0, q1, #0x3 b64 ;");
	check_decoded("shr.u16 %rs1, %rs2, %r3;", "shr.u32 r0, r1, r2 u16 ;");
	check_decoded("shr.s64 %rd1, %rd2, %r3;", "shr.s64 q0, q1, r0 s64 ;");
	check_decoded("shf.l.wrap.b32 %r1, %r2, %r3, %r4;", "shf.l.b32 r0, r1, r2, r3 b32 ;");
	check_decoded(
		"shf.r.clamp.b32 %r1, %r2, %r3, 8;", "shf.r.b32 r0, r1, r2, #0x8 b32 mod 1 ;");
	check_decoded("bfe.u64 %rd1, %rd2, 4, 8;", "bfe.u64 q0, q1, #0x4, #0x8 u64 ;");
	check_decoded("bfi.b32 %r1, %r2, %r3, 4, 8;", "bfi.b32 r0, r1, r2, #0x4, #0x8 b32 ;");
	check_decoded("bfind.shiftamt.s64 %r1, %rd2;", "bfind.s64 r0, q0 s64 mod 1 ;");
	check_decoded("clz.b64 %r1, %rd2;", "clz.b64 r0, q0 b64 ;");
	check_decoded("popc.b32 %r1, %r2;", "popc.b32 r0, r1 b32 ;");
	check_decoded("brev.b64 %rd1, %rd2;", "brev.b64 q0, q1 b64 ;");
	check_decoded("prmt.b32 %r1, %r2, %r3, 0x3210;", "prmt.b32 r0, r1, r2, #0x3210 b32 ;");
	check_decoded("prmt.b32.rc16 %r1, %r2, %r3, 1;", "prmt.b32 r0, r1, r2, #0x1 b32 mod 6 ;");
	check_decoded(
		"lop3.b32 %r1, %r2, %r3, %r4, 0xE8;", "lop3.b32 r0, r1, r2, r3 b32 mod 232 ;");
	check_refused_body("lop3.b32 %r1, %r2, %r3, %r4, 256;", EINVAL,
		"line 5: 'lop3' needs a constant from 0 to 255");
}

static void test_floats(void)
{
	check_decoded("add.f32 %f1, %f2, 0f3F800000;", "add.f32 r0, r1, #0x3f800000 f32 ;");
	check_decoded("add.rz.ftz.f32 %f1, %f2, %f3;", "add.f32 r0, r1, r2 f32 mod 1 ftz ;");
	check_decoded("add.f32 %f1, %f2, -1.5;", "add.f32 r0, r1, #0xbfc00000 f32 ;");
	check_decoded(
		"add.f64 %fd1, %fd2, 0f3F800000;", "add.f64 q0, q1, #0x3ff0000000000000 f64 ;");
	check_decoded("fma.rn.f64 %fd1, %fd2, %fd3, 0d4008000000000000;",
		"fma.f64 q0, q1, q2, #0x4008000000000000 f64 ;");
	check_decoded("mad.rn.f32 %f1, %f2, %f3, %f4;", "fma.f32 r0, r1, r2, r3 f32 ;");
	check_decoded("mul.rn.sat.f32 %f1, %f2, %f3;", "mul.f32 r0, r1, r2 f32 sat ;");
	check_decoded("div.full.f32 %f1, %f2, %f3;", "div.f32 r0, r1, r2 f32 mod 8 ;");
	check_decoded("sqrt.approx.ftz.f32 %f1, %f2;", "sqrt.f32 r0, r1 f32 mod 8 ftz ;");
	check_decoded("ex2.approx.f32 %f1, %f2;", "ex2.f32 r0, r1 f32 mod 8 ;");
	check_decoded("copysign.f64 %fd1, %fd2, %fd3;", "copysign.f64 q0, q1, q2 f64 ;");
	check_decoded("testp.subnormal.f32 %p1, %f2;", "testp.f32 p1, r0 f32 mod 5 ;");
	check_refused_body("add.f32 %f1, %f2, 1;", EINVAL, "line 5: an integer constant as .f32");
}

static void test_halves(void)
{
	check_decoded("add.f16 %rs1, %rs2, %rs3;", "add.half r0, r1, r2 f16 ;");
	check_decoded("sub.ftz.sat.f16x2 %r1, %r2, %r3;", "sub.half r0, r1, r2 f16x2 ftz sat ;");
	check_decoded("mul.rn.bf16 %rs1, %rs2, 0x3f80;", "mul.half r0, r1, #0x3f80 bf16 ;");
	check_decoded(
		"fma.rn.relu.bf16x2 %r1, %r2, %r3, %r4;", "fma.half r0, r1, r2, r3 bf16x2 relu ;");
	check_decoded("neg.f16 %rs1, %rs2;", "neg.half r0, r1 f16 ;");
	check_decoded("min.NaN.f16 %rs1, %rs2, %rs3;", "min.half r0, r1, r2 f16 mod 1 ;");
	check_decoded("max.xorsign.abs.f32 %f1, %f2, %f3;", "max.f32 r0, r1, r2 f32 mod 2 ;");
	check_decoded("ex2.approx.f16x2 %r1, %r2;", "ex2.half r0, r1 f16x2 mod 8 ;");
	check_decoded("tanh.approx.f32 %f1, %f2;", "tanh.f32 r0, r1 f32 mod 8 ;");
	check_decoded("cvt.rn.f16x2.f32 %r1, %f2, %f3;", "cvt.pair r0, r1, r2 f16x2 from f32 ;");
	check_decoded(
		"cvt.rz.relu.bf16.f32 %rs1, %f2;", "cvt.ff r0, r1 bf16 from f32 mod 1 relu ;");
	check_decoded("cvt.f64.f16 %fd1, %rs2;", "cvt.ff q0, r0 f64 from f16 ;");
	check_decoded("setp.lt.or.f16x2 %p1|%p2, %r2, %r3, !%p3;",
		"setp.half p1, p2, r0, r1, p3 f16x2 stype 2 mod 2 negc ;");
	/* set is made of setp and selp; only the last step has the guard. */
	check_decoded("@!%p1 set.gt.u32.f16 %r1, %rs2, %rs3;", " setp.half p2, r1, r2 f16 mod 4 ;");
	check_decoded("@!%p1 set.gt.u32.f16 %r1, %rs2, %rs3;",
		"@!p1 selp.b32 r0, #0xffffffff, #0x0, p2 u32 ;");
	check_decoded("set.ne.f16x2.f16x2 %r1, %r2, %r3;", "or.b32 r0, r3, r4 f16x2 ;");
	check_decoded(
		"atom.global.add.noftz.f16 %rs1, [%rd2], %rs3;", "atom r0, q0, r1 global+0 f16 ;");
	check_refused_body(
		"add.rz.f16 %rs1, %rs2, %rs3;", ENOTSUP, "line 5: 'add.rz.f16' is not supported");
	check_refused_body("add.f16 %rs1, %rs2, 0f3F800000;", EINVAL,
		"line 5: a floating-point constant as .f16");
	check_refused_body("add.f16x2 %r1, %r2, 0f3F800000;", EINVAL,
		"line 5: a floating-point constant as .f16x2");
	check_refused_body(
		"div.f16 %rs1, %rs2, %rs3;", ENOTSUP, "line 5: 'div.f16' is not supported");
	check_refused_body("setp.lt.f16x2 %p1, %r2, %r3;", EINVAL,
		"line 5: 'setp' of two halves needs two predicates");
	check_refused_body("set.lt.f16.f16x2 %rs1, %r2, %r3;", ENOTSUP,
		"line 5: 'set.lt.f16.f16x2' is not supported");
	check_refused_body("cvt.f16x2.f32 %r1, %f2, %f3;", ENOTSUP,
		"line 5: 'cvt.f16x2.f32' is not supported");
	check_refused_body("cvt.rn.f16x2.f32 %r1, %f2;", EINVAL, "line 5: 'cvt' with 2 operands");
	check_refused_body("atom.global.add.noftz.f32 %f1, [%rd2], %f3;", ENOTSUP,
		"line 5: '.noftz' of 'atom' is not supported");
	check_refused_body("min.relu.f16 %rs1, %rs2, %rs3;", ENOTSUP,
		"line 5: '.relu' of 'min' is not supported");
}

static void test_predicates(void)
{
	check_decoded("setp.lt.s32 %p1, %r2, 7;", "setp.s32 p1, r0, #0x7 s32 mod 2 ;");
	check_decoded("setp.hs.u32 %p1, %r2, 7;", "setp.u32 p1, r0, #0x7 u32 mod 5 ;");
	check_decoded("setp.eq.u16 %p1, %rs2, 7;", "setp.u32 p1, r0, #0x7 u16 ;");
	check_decoded("setp.neu.ftz.f32 %p1, %f2, %f3;", "setp.f32 p1, r0, r1 f32 mod 7 ftz ;");
	check_decoded("setp.ge.or.s64 %p1|%p2, %rd2, %rd3, !%p3;",
		"setp.s64 p1, p2, q0, q1, p3 s64 stype 2 mod 5 negc ;");
	check_decoded("set.gt.f32.s32 %f1, %r2, %r3;", "set.s32 r0, r1, r2 f32 mod 4 ;");
	check_decoded("selp.b16 %rs1, 3, %rs2, %p1;", "selp.b32 r0, #0x3, r1, p1 b16 ;");
	check_decoded("slct.f32.s32 %f1, %f2, %f3, %r4;", "slct.b32.s32 r0, r1, r2, r3 f32");
	check_decoded("and.pred %p1, %p2, !%p3;", "and.pred p1, p2, p3 pred negb ;");
	check_decoded("not.pred %p1, %p2;", "mov.pred p1, p2 pred nega ;");
	check_decoded("mov.pred %p1, 0;", "mov.pred p1, p0 pred nega ;");
	check_decoded("mov.pred %p1, -1;", "mov.pred p1, p0 pred ;");
	check_decoded("@!%p1 mov.u32 %r1, 5;", "@!p1 mov.b32 r0, #0x5 u32 ;");
	check_decoded("setp.ne.b32 _|%p1, %r2, 0;", "setp.u32 p2, p1, r0, #0x0");
	check_refused_body(
		"setp.ltu.s32 %p1, %r2, 7;", ENOTSUP, "line 5: 'setp.ltu.s32' is not supported");
}

static void test_moves(void)
{
	check_decoded("mov.u32 %r1, %tid.x;", "sreg.b32 r0 %tid.x u32 ;");
	check_decoded("mov.u64 %rd1, %globaltimer;", "sreg.b64 q0 %globaltimer u64 ;");
	check_decoded("add.s32 %r1, %laneid, WARP_SZ;", "sreg.b32 r1 %laneid ;");
	check_decoded("add.s32 %r1, %laneid, WARP_SZ;", "add.i32 r0, r1, #0x20 s32 ;");
	check_decoded("mov.b64 {%r1, %r2}, %rd3;", "unpack r0, r1, q0 b64 mod 2 ;");
	check_decoded(
		"mov.b64 %rd3, {%rs1, %rs2, %rs3, %rs4};", "pack q0, r0, r1, r2, r3 b64 mod 4 ;");
	check_decoded("cvt.s64.s32 %rd1, %r2;", "cvt.ii q0, r0 s64 from s32 ;");
	check_decoded("cvt.u8.u32 %r1, %r2;", "cvt.ii r0, r1 u8 from u32 ;");
	check_decoded("cvt.rzi.s32.f64 %r1, %fd2;", "cvt.fi r0, q0 s32 from f64 mod 5 ;");
	check_decoded("cvt.rn.f32.u64 %f1, %rd2;", "cvt.if r0, q0 f32 from u64 ;");
	check_decoded("cvt.rmi.f32.f32 %f1, %f2;", "cvt.ff r0, r1 f32 from f32 mod 6 ;");
	check_decoded("cvt.sat.f32.f32 %f1, %f2;", "cvt.ff r0, r1 f32 from f32 sat ;");
	check_decoded("cvt.rn.f16.f32 %rs1, %f2;", "cvt.ff r0, r1 f16 from f32 ;");
	check_decoded("cvta.to.global.u64 %rd1, %rd2;", "mov.b64 q0, q1 global b64 ;");
	check_decoded("cvta.shared.u64 %rd1, %rd2;", "cvta q0, q1 shared b64 ;");
	check_decoded("cvta.to.local.u64 %rd1, %rd2;", "cvta.to q0, q1 local b64 ;");
	check_decoded("isspacep.shared %p1, %rd2;", "isspacep p1, q0 shared ;");
	check_refused_body(
		"cvt.s32.f32 %r1, %f2;", ENOTSUP, "line 5: 'cvt.s32.f32' is not supported");
	check_refused_body(
		"mov.u32 %r1, %rd2;", EINVAL, "line 5: a register of 64 bits, 'mov' needs 32");
	check_refused_body("mov.u32 %r9, 1;", ENOTSUP,
		"line 5: '%r9' is no register declared here, and no special one that is supported");
}

static void test_memory(void)
{
	check_decoded("ld.param.u64 %rd1, [x];", "ld q0 param+0 u64 mod 1 uniform ;");
	check_decoded("ld.param.u16 %rs1, [y+2];", "ld r0 param+10 u16 mod 1 uniform ;");
	check_decoded("ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+-16];",
		"ld r0, r1, r2, r3, q0 global-16 f32 mod 4 ;");
	check_decoded("ld.s8 %r1, [%rd1];", "ld r0, q0 generic+0 s8 mod 1 ;");
	check_decoded("ld.volatile.shared.u32 %r1, [%r2+4];",
		"ld r0, r1 shared+4 u32 mod 1 addr32 strong ;");
	check_decoded("ld.relaxed.gpu.global.L2::128B.u32 %r1, [%rd2];",
		"ld r0, q0 global+0 u32 mod 1 strong ;");
	check_decoded(
		"st.global.v2.u64 [%rd1], {%rd2, 5};", "st q1, #0x5, q0 global+0 u64 mod 2 ;");
	check_decoded("st.local.u8 [%rd1+1], %rs2;", "st r0, q0 local+1 u8 mod 1 ;");
	check_decoded("atom.global.add.u32 %r1, [%rd2+8], 5;", "atom r0, q0, #0x5 global+8 u32 ;");
	check_decoded("atom.shared.cas.b64 %rd1, [%rd2], %rd3, %rd4;",
		"atom q0, q1, q2, q3 shared+0 b64 mod 7 ;");
	check_decoded("atom.acq_rel.gpu.global.exch.b32 %r1, [%rd2], 5;",
		"atom r0, q0, #0x5 global+0 b32 mod 6 strong ;");
	check_decoded("red.global.add.f32 [%rd2], %f1;", "atom q0, r0 global+0 f32 ;");
	check_decoded("membar.gl;", "membar mod 1 ;");
	check_decoded("fence.acq_rel.sys;", "membar mod 2 ;");
	check_decoded("prefetch.global.L2 [%rd1];", "nop ;");
	check_decoded(".shared .align 8 .b8 s[64]; mov.u64 %rd1, s; ld.shared.u32 %r1, [s+4];",
		"ld r0, #0x0 shared+4 u32 mod 1 uniform ;");
	check_decoded(".local .align 8 .b8 l[64]; .local .b32 m; st.local.u32 [m], 1;",
		"st #0x1, #local+0x40 local+0 u32 mod 1 uniform ;");
	check_refused_body(
		"ld.param.u64 %rd1, [x+4];", EINVAL, "line 5: 'ld' beyond the end of a parameter");
	check_refused_body("ld.param.u64 %rd1, [nothing];", EINVAL,
		"line 5: 'nothing' is not in the state space of this 'ld'");
	check_refused_body(
		"st.param.u64 [x], %rd1;", EINVAL, "line 5: 'st' to memory that is read only");
	check_refused_body("atom.global.add.b32 %r1, [%rd2], 5;", ENOTSUP,
		"line 5: 'atom.global.add.b32' is not supported");
	check_refused_body("ld.global.foo.u32 %r1, [%rd2];", ENOTSUP,
		"line 5: '.foo' of 'ld' is not supported");
}

static void test_sync(void)
{
	check_decoded("bar.sync 0;", "bar.sync #0x0 aligned ;");
	check_decoded("barrier.sync %r1, 64;", "bar.sync r0, #0x40 ;");
	check_decoded("bar.arrive 1, 64;", "bar.arrive #0x1, #0x40 aligned ;");
	check_decoded("bar.red.popc.u32 %r1, 0, %p1;", "bar.red r0, #0x0, p1 aligned ;");
	check_decoded("bar.red.or.pred %p2, 0, 64, !%p1;",
		"bar.red p1, #0x0, #0x40, p2 mod 2 negc aligned ;");
	check_decoded("bar.warp.sync -1;", "bar.warp.sync #0xffffffff ;");
	check_decoded("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;",
		"shfl r0, p1, r1, #0x1, #0x1f, #0xffffffff b32 mod 2 ;");
	check_decoded("shfl.idx.b32 %f1, %f2, 0, 31;", "shfl r0, r1, #0x0, #0x1f b32 mod 3 ;");
	check_decoded(
		"vote.sync.ballot.b32 %r1, !%p1, -1;", "vote r0, p1, #0xffffffff mod 3 negc ;");
	check_decoded("vote.sync.all.pred %p2, %p1, %r1;", "vote p1, p2, r0 ;");
	check_decoded("match.any.sync.b64 %r1, %rd2, -1;", "match r0, q0, #0xffffffff b64 ;");
	check_decoded("match.all.sync.b32 %r1|%p1, %r2, -1;",
		"match r0, p1, r1, #0xffffffff b32 mod 1 ;");
	check_decoded("redux.sync.max.s32 %r1, %r2, -1;", "redux r0, r1, #0xffffffff s32 mod 2 ;");
	check_decoded("activemask.b32 %r1;", "activemask r0 ;");
	check_decoded("nanosleep.u32 100;", "nanosleep #0x64 ;");
	check_decoded("trap;", "trap ;");
	check_refused_body("wmma.load.a.sync %r1, [%rd1];", ENOTSUP,
		"line 5: the instruction 'wmma' is not supported");
}

int main(void)
{
	test_integers();
	test_bits();
	test_floats();
	test_halves();
	test_predicates();
	test_moves();
	test_memory();
	test_sync();
	return check_result();
}
