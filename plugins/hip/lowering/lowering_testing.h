// Kernels for tests of images: each with what it computes.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_TESTING_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_TESTING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"
#include "plugins/hip/lowering/lowering.h"

namespace backplane::hip {

inline constexpr char kDeclarations[] = R"(
declare i32 @gpu.thread()
declare i32 @gpu.block()
declare i32 @gpu.blocks()
declare void @gpu.barrier() convergent
declare i32 @gpu.shuffle.xor(i32, i32) convergent
declare i32 @gpu.shuffle.index(i32, i32) convergent
)";

// y[i] = a[i] * b[i] + 1 for i < n; 256 threads.
inline constexpr char kElementwise[] = R"(
define void @elementwise(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %y, i32 %n) "backplane-kernel"="256" {
  %t = call i32 @gpu.thread()
  %g = call i32 @gpu.block()
  %first = mul i32 %g, 256
  %i = add i32 %first, %t
  %in = icmp ult i32 %i, %n
  br i1 %in, label %body, label %end
body:
  %at = zext i32 %i to i64
  %pa = getelementptr inbounds float, ptr addrspace(1) %a, i64 %at
  %pb = getelementptr inbounds float, ptr addrspace(1) %b, i64 %at
  %py = getelementptr inbounds float, ptr addrspace(1) %y, i64 %at
  %va = load float, ptr addrspace(1) %pa, align 4
  %vb = load float, ptr addrspace(1) %pb, align 4
  %m = fmul float %va, %vb
  %r = fadd float %m, 1.0
  store float %r, ptr addrspace(1) %py, align 4
  br label %end
end:
  ret void
})";

// y[i] = (number of blocks) * 1000000 + block * 1000 + thread; 64 threads.
inline constexpr char kNumbers[] = R"(
define void @numbers(ptr addrspace(1) %y) "backplane-kernel"="64" {
  %t = call i32 @gpu.thread()
  %g = call i32 @gpu.block()
  %n = call i32 @gpu.blocks()
  %first = mul i32 %g, 64
  %i = add i32 %first, %t
  %n1 = mul i32 %n, 1000000
  %g1 = mul i32 %g, 1000
  %s = add i32 %n1, %g1
  %v = add i32 %s, %t
  %p = getelementptr inbounds i32, ptr addrspace(1) %y, i32 %i
  store i32 %v, ptr addrspace(1) %p, align 4
  ret void
})";

// C = A * B for 64 x 64 matrices of floats in tiles of 16 x 16; a block of 256 threads for each of 16 tiles of C. The
// barriers stand in a loop.
inline constexpr char kMatmul[] = R"(
@tile.a = internal addrspace(3) global [256 x float] undef, align 16
@tile.b = internal addrspace(3) global [256 x float] undef, align 16
define void @matmul(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) "backplane-kernel"="256" {
entry:
  %t = call i32 @gpu.thread()
  %g = call i32 @gpu.block()
  %tx = and i32 %t, 15
  %ty = lshr i32 %t, 4
  %gx = and i32 %g, 3
  %gy = lshr i32 %g, 2
  %row0 = shl i32 %gy, 4
  %row = add i32 %row0, %ty
  %col0 = shl i32 %gx, 4
  %col = add i32 %col0, %tx
  %sa = getelementptr inbounds [256 x float], ptr addrspace(3) @tile.a, i32 0, i32 %t
  %sb = getelementptr inbounds [256 x float], ptr addrspace(3) @tile.b, i32 0, i32 %t
  %ty16 = shl i32 %ty, 4
  br label %tiles
tiles:
  %k0 = phi i32 [ 0, %entry ], [ %k0.next, %tiles.end ]
  %sum0 = phi float [ 0.0, %entry ], [ %sum.next, %tiles.end ]
  %ar = shl i32 %row, 6
  %ac = add i32 %k0, %tx
  %ai = add i32 %ar, %ac
  %pa = getelementptr inbounds float, ptr addrspace(1) %a, i32 %ai
  %va = load float, ptr addrspace(1) %pa, align 4
  store float %va, ptr addrspace(3) %sa, align 4
  %br0 = add i32 %k0, %ty
  %br1 = shl i32 %br0, 6
  %bi = add i32 %br1, %col
  %pb = getelementptr inbounds float, ptr addrspace(1) %b, i32 %bi
  %vb = load float, ptr addrspace(1) %pb, align 4
  store float %vb, ptr addrspace(3) %sb, align 4
  call void @gpu.barrier()
  br label %inner
inner:
  %k = phi i32 [ 0, %tiles ], [ %k.next, %inner ]
  %sum = phi float [ %sum0, %tiles ], [ %sum.next, %inner ]
  %li = add i32 %ty16, %k
  %lp = getelementptr inbounds [256 x float], ptr addrspace(3) @tile.a, i32 0, i32 %li
  %lv = load float, ptr addrspace(3) %lp, align 4
  %k16 = shl i32 %k, 4
  %ri = add i32 %k16, %tx
  %rp = getelementptr inbounds [256 x float], ptr addrspace(3) @tile.b, i32 0, i32 %ri
  %rv = load float, ptr addrspace(3) %rp, align 4
  %prod = fmul float %lv, %rv
  %sum.next = fadd float %sum, %prod
  %k.next = add i32 %k, 1
  %more = icmp ult i32 %k.next, 16
  br i1 %more, label %inner, label %tiles.end
tiles.end:
  call void @gpu.barrier()
  %k0.next = add i32 %k0, 16
  %again = icmp ult i32 %k0.next, 64
  br i1 %again, label %tiles, label %end
end:
  %cr = shl i32 %row, 6
  %ci = add i32 %cr, %col
  %pc = getelementptr inbounds float, ptr addrspace(1) %c, i32 %ci
  store float %sum.next, ptr addrspace(1) %pc, align 4
  ret void
})";

// y[block] = the sum of the block's 256 numbers: shuffles in groups, then the first group alone adds the groups' sums.
inline constexpr char kBlockSum[] = R"(
@sums = internal addrspace(3) global [8 x i32] undef, align 4
define internal i32 @group.sum(i32 %v) {
  %a = call i32 @gpu.shuffle.xor(i32 %v, i32 16)
  %v1 = add i32 %v, %a
  %b = call i32 @gpu.shuffle.xor(i32 %v1, i32 8)
  %v2 = add i32 %v1, %b
  %c = call i32 @gpu.shuffle.xor(i32 %v2, i32 4)
  %v3 = add i32 %v2, %c
  %d = call i32 @gpu.shuffle.xor(i32 %v3, i32 2)
  %v4 = add i32 %v3, %d
  %e = call i32 @gpu.shuffle.xor(i32 %v4, i32 1)
  %v5 = add i32 %v4, %e
  ret i32 %v5
}
define void @block_sum(ptr addrspace(1) %x, ptr addrspace(1) %y) "backplane-kernel"="256" {
entry:
  %t = call i32 @gpu.thread()
  %g = call i32 @gpu.block()
  %first = mul i32 %g, 256
  %i = add i32 %first, %t
  %p = getelementptr inbounds i32, ptr addrspace(1) %x, i32 %i
  %v = load i32, ptr addrspace(1) %p, align 4
  %s = call i32 @group.sum(i32 %v)
  %lane = and i32 %t, 31
  %group = lshr i32 %t, 5
  %is.first = icmp eq i32 %lane, 0
  br i1 %is.first, label %write, label %meet
write:
  %ps = getelementptr inbounds [8 x i32], ptr addrspace(3) @sums, i32 0, i32 %group
  store i32 %s, ptr addrspace(3) %ps, align 4
  br label %meet
meet:
  call void @gpu.barrier()
  %in.group = icmp ult i32 %t, 32
  br i1 %in.group, label %last, label %end
last:
  %has = icmp ult i32 %t, 8
  %at = and i32 %t, 7
  %pl = getelementptr inbounds [8 x i32], ptr addrspace(3) @sums, i32 0, i32 %at
  %l = load i32, ptr addrspace(3) %pl, align 4
  %l0 = select i1 %has, i32 %l, i32 0
  %all = call i32 @group.sum(i32 %l0)
  %is.zero = icmp eq i32 %t, 0
  br i1 %is.zero, label %out, label %end
out:
  %py = getelementptr inbounds i32, ptr addrspace(1) %y, i32 %g
  store i32 %all, ptr addrspace(1) %py, align 4
  br label %end
end:
  ret void
})";

// y[i] = x[32 * (i / 32) + (7 * i + 3) % 32] + (x of the lane whose number differs by `mask`); 64 threads.
inline constexpr char kLanes[] = R"(
define void @lanes(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %mask) "backplane-kernel"="64" {
  %t = call i32 @gpu.thread()
  %p = getelementptr inbounds i32, ptr addrspace(1) %x, i32 %t
  %v = load i32, ptr addrspace(1) %p, align 4
  %t7 = mul i32 %t, 7
  %t73 = add i32 %t7, 3
  %lane = and i32 %t73, 31
  %a = call i32 @gpu.shuffle.index(i32 %v, i32 %lane)
  %b = call i32 @gpu.shuffle.xor(i32 %v, i32 %mask)
  %r = add i32 %a, %b
  %q = getelementptr inbounds i32, ptr addrspace(1) %y, i32 %t
  store i32 %r, ptr addrspace(1) %q, align 4
  ret void
})";

// counts[x[i] % 8] += 1, sum += float(x[i]), largest = max(largest, x[i]), and `tickets` counted up by compare and
// swap.
inline constexpr char kAtomics[] = R"(
define void @atomics(ptr addrspace(1) %x, ptr addrspace(1) %counts, ptr addrspace(1) %sum, ptr addrspace(1) %largest, ptr addrspace(1) %tickets) "backplane-kernel"="64" {
entry:
  %t = call i32 @gpu.thread()
  %g = call i32 @gpu.block()
  %first = mul i32 %g, 64
  %i = add i32 %first, %t
  %p = getelementptr inbounds i32, ptr addrspace(1) %x, i32 %i
  %v = load i32, ptr addrspace(1) %p, align 4
  %bin = and i32 %v, 7
  %pc = getelementptr inbounds i32, ptr addrspace(1) %counts, i32 %bin
  %c = atomicrmw add ptr addrspace(1) %pc, i32 1 syncscope("agent") monotonic, align 4
  %f = uitofp i32 %v to float
  %s = atomicrmw fadd ptr addrspace(1) %sum, float %f syncscope("agent") monotonic, align 4
  %m = atomicrmw umax ptr addrspace(1) %largest, i32 %v syncscope("agent") monotonic, align 4
  %before = load atomic i32, ptr addrspace(1) %tickets syncscope("agent") monotonic, align 4
  br label %try
try:
  %old = phi i32 [ %before, %entry ], [ %found, %try ]
  %new = add i32 %old, 1
  %pair = cmpxchg ptr addrspace(1) %tickets, i32 %old, i32 %new syncscope("agent") monotonic monotonic, align 4
  %found = extractvalue { i32, i1 } %pair, 0
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %end, label %try
end:
  ret void
})";

// y[block] = 7 * block, then the last block to finish (by `tickets`, ordered) writes the sum of all y to *sum.
inline constexpr char kLastBlock[] = R"(
define void @last_block(ptr addrspace(1) %y, ptr addrspace(1) %tickets, ptr addrspace(1) %sum) "backplane-kernel"="1" {
entry:
  %g = call i32 @gpu.block()
  %n = call i32 @gpu.blocks()
  %v = mul i32 %g, 7
  %p = getelementptr inbounds i32, ptr addrspace(1) %y, i32 %g
  store i32 %v, ptr addrspace(1) %p, align 4
  fence syncscope("agent") release
  %ticket = atomicrmw add ptr addrspace(1) %tickets, i32 1 syncscope("agent") acq_rel, align 4
  fence syncscope("agent") acquire
  %last = sub i32 %n, 1
  %is.last = icmp eq i32 %ticket, %last
  br i1 %is.last, label %loop, label %end
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %loop ]
  %s = phi i32 [ 0, %entry ], [ %s.next, %loop ]
  %q = getelementptr inbounds i32, ptr addrspace(1) %y, i32 %i
  %w = load atomic i32, ptr addrspace(1) %q syncscope("agent") acquire, align 4
  %s.next = add i32 %s, %w
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, %n
  br i1 %more, label %loop, label %out
out:
  store atomic i32 %s.next, ptr addrspace(1) %sum syncscope("agent") release, align 4
  br label %end
end:
  ret void
})";

// q[i] = x[i] / d, r[i] = x[i] % d, w[i] = (x[i] * 2^20 + i) / (d * 2^7 + 1) in 64 bits, all signed; 64 threads.
inline constexpr char kDivision[] = R"(
define void @division(ptr addrspace(1) %x, i32 %d, ptr addrspace(1) %q, ptr addrspace(1) %r, ptr addrspace(1) %w) "backplane-kernel"="64" {
  %t = call i32 @gpu.thread()
  %p = getelementptr inbounds i32, ptr addrspace(1) %x, i32 %t
  %v = load i32, ptr addrspace(1) %p, align 4
  %quotient = sdiv i32 %v, %d
  %rest = srem i32 %v, %d
  %pq = getelementptr inbounds i32, ptr addrspace(1) %q, i32 %t
  store i32 %quotient, ptr addrspace(1) %pq, align 4
  %pr = getelementptr inbounds i32, ptr addrspace(1) %r, i32 %t
  store i32 %rest, ptr addrspace(1) %pr, align 4
  %v64 = sext i32 %v to i64
  %t64 = zext i32 %t to i64
  %d64 = sext i32 %d to i64
  %high = shl i64 %v64, 20
  %n = add i64 %high, %t64
  %dh = shl i64 %d64, 7
  %d1 = add i64 %dh, 1
  %wide = sdiv i64 %n, %d1
  %pw = getelementptr inbounds i64, ptr addrspace(1) %w, i32 %t
  store i64 %wide, ptr addrspace(1) %pw, align 8
  ret void
})";

// y[i] = sqrt(x[i]) / (x[i] + 3) in f64, h[i] = f16(f32(h[i]) * 2), b[i] = the upper half of f32(b[i]) + 1; 64 threads.
inline constexpr char kFloats[] = R"(
declare double @llvm.sqrt.f64(double)
define void @floats(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %h, ptr addrspace(1) %b) "backplane-kernel"="64" {
  %t = call i32 @gpu.thread()
  %px = getelementptr inbounds double, ptr addrspace(1) %x, i32 %t
  %v = load double, ptr addrspace(1) %px, align 8
  %root = call double @llvm.sqrt.f64(double %v)
  %v3 = fadd double %v, 3.0
  %r = fdiv double %root, %v3
  %py = getelementptr inbounds double, ptr addrspace(1) %y, i32 %t
  store double %r, ptr addrspace(1) %py, align 8
  %ph = getelementptr inbounds half, ptr addrspace(1) %h, i32 %t
  %vh = load half, ptr addrspace(1) %ph, align 2
  %wide = fpext half %vh to float
  %twice = fmul float %wide, 2.0
  %narrow = fptrunc float %twice to half
  store half %narrow, ptr addrspace(1) %ph, align 2
  %pb = getelementptr inbounds i16, ptr addrspace(1) %b, i32 %t
  %vb = load bfloat, ptr addrspace(1) %pb, align 2
  %fb = fpext bfloat %vb to float
  %fb1 = fadd float %fb, 1.0
  %bits = bitcast float %fb1 to i32
  %upper = lshr i32 %bits, 16
  %short = trunc i32 %upper to i16
  store i16 %short, ptr addrspace(1) %pb, align 2
  ret void
})";

// y[i] = x[(x[i] % 8) of a private copy of x[0..7], reversed], with one barrier in the middle of the copy's life.
inline constexpr char kPrivate[] = R"(
define void @private_array(ptr addrspace(1) %x, ptr addrspace(1) %y) "backplane-kernel"="64" {
entry:
  %array = alloca [8 x i32], align 4, addrspace(PRIVATE)
  %t = call i32 @gpu.thread()
  br label %fill
fill:
  %k = phi i32 [ 0, %entry ], [ %k.next, %fill ]
  %pk = getelementptr inbounds i32, ptr addrspace(1) %x, i32 %k
  %vk = load i32, ptr addrspace(1) %pk, align 4
  %to = sub i32 7, %k
  %slot = getelementptr inbounds [8 x i32], ptr addrspace(PRIVATE) %array, i32 0, i32 %to
  %mine = add i32 %vk, %t
  store i32 %mine, ptr addrspace(PRIVATE) %slot, align 4
  %k.next = add i32 %k, 1
  %more = icmp ult i32 %k.next, 8
  br i1 %more, label %fill, label %use
use:
  call void @gpu.barrier()
  %p = getelementptr inbounds i32, ptr addrspace(1) %x, i32 %t
  %v = load i32, ptr addrspace(1) %p, align 4
  %at = and i32 %v, 7
  %from = getelementptr inbounds [8 x i32], ptr addrspace(PRIVATE) %array, i32 0, i32 %at
  %r = load i32, ptr addrspace(PRIVATE) %from, align 4
  %q = getelementptr inbounds i32, ptr addrspace(1) %y, i32 %t
  store i32 %r, ptr addrspace(1) %q, align 4
  ret void
})";

inline std::string AllKernels() {
  return absl::StrCat(kElementwise, kNumbers, kMatmul, kBlockSum, kLanes, kAtomics, kDivision, kFloats, kPrivate,
                      kLastBlock);
}
inline constexpr size_t kAllKernels = 10;

// A module for the target from text; PRIVATE stands for the address space of temporaries.
inline absl::StatusOr<std::unique_ptr<llvm::Module>> ParseKernels(llvm::LLVMContext& context, const GpuTarget& target,
                                                                  absl::string_view text) {
  auto module = std::make_unique<llvm::Module>("kernels", context);
  if (absl::Status s = PrepareModule(*module, target); !s.ok()) return s;
  const std::string layout = module->getDataLayoutStr();
  const std::string source =
      absl::StrCat("target datalayout = \"", layout, "\"\n", kDeclarations,
                   absl::StrReplaceAll(text, {{"PRIVATE", absl::StrCat(target.ir.temporary_address_space)}}));
  llvm::SMDiagnostic diagnostic;
  if (llvm::parseAssemblyInto(llvm::MemoryBufferRef(source, "kernels"), module.get(), nullptr, diagnostic)) {
    std::string message;
    llvm::raw_string_ostream stream(message);
    diagnostic.print("", stream);
    return absl::InvalidArgumentError(message);
  }
  return module;
}

inline absl::StatusOr<Image> LowerKernels(const GpuTarget& target, absl::string_view text) {
  llvm::LLVMContext context;
  auto module = ParseKernels(context, target, text);
  if (!module.ok()) return module.status();
  return Lower(**module, target);
}

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_LOWERING_TESTING_H_
