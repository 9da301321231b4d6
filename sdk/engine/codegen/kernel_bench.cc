// Times generated kernels on one thread, data warm: `engine_codegen_bench [name part]`. Prints milliseconds,
// nanoseconds an element of the largest array, and how long it took to compile. `engine_codegen_bench transposes [name
// part]`: plain transposes beside memcpy of the same bytes, in turns.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "sdk/engine/codegen/kernel_testing.h"

using namespace backplane;
using namespace backplane::engine::codegen;

namespace {

const char* kAdd = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n";

void* HugePages(int64_t bytes) {
  constexpr int64_t kHuge = 1 << 21;
  bytes = (bytes + kHuge) / kHuge * kHuge;
  void* p = std::aligned_alloc(kHuge, bytes);
  madvise(p, bytes, MADV_HUGEPAGE);
  std::memset(p, 0, bytes);
  return p;
}

void Bench(const char* filter, const std::string& name, const std::string& body,
           const std::string& computations = kAdd) {
  if (filter != nullptr && name.find(filter) == std::string::npos) return;
  auto kernel = TestKernel::Make("HloModule m\n" + computations + "ENTRY e {\n" + body + "}\n");
  if (!kernel.ok()) {
    std::printf("%-28s %s\n", name.c_str(), kernel.status().ToString().c_str());
    return;
  }
  std::vector<void*> buffers;
  int64_t largest = 1;
  auto allocate = [&](int64_t bytes) {
    buffers.push_back(HugePages(bytes));
    return buffers.back();
  };
  for (const Literal& l : (*kernel)->RandomInputs()) {
    std::memcpy(allocate(l.byte_size() + 64), l.bytes(), l.byte_size());
    largest = std::max(largest, l.num_elements());
  }
  for (const Shape& s : (*kernel)->OutputShapes()) {
    allocate(s.byte_size() + 64);
    largest = std::max(largest, s.num_elements());
  }
  for (int64_t bytes : (*kernel)->plan().temp_bytes) allocate(bytes + 64);
  double best = 1e9;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) {
    auto t0 = std::chrono::steady_clock::now();
    (*kernel)->RunRaw(buffers.data());
    auto t1 = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double, std::milli>(t1 - t0).count());
    if (i > 3 && t1 - start > std::chrono::milliseconds(400)) break;
  }
  double estimate = 0;
  for (const auto& p : (*kernel)->plan().phases) estimate += p.estimated_us;
  std::printf("%-28s %8.3f ms %7.3f ns/element  compiled in %5.1f ms (plan %.2f, emit %.2f)  estimate %8.3f ms  [%s]\n",
              name.c_str(), best, best * 1e6 / largest, (*kernel)->compile_ms(), (*kernel)->plan_ms(),
              (*kernel)->emit_ms(), estimate / 1000, (*kernel)->plan().note.c_str());
  if (std::getenv("KERNEL_TEST_DUMP") != nullptr)
    std::printf("%s\n%s\n", (*kernel)->ir().c_str(), (*kernel)->assembly().c_str());
  for (void* p : buffers) std::free(p);
}

// Processor time of this thread: other programs on the machine take turns with us.
double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

void Transposes(const char* filter) {
  struct Case {
    std::vector<int64_t> dims;
    std::vector<int> permutation;
  };
  const Case cases[] = {
      {{1024, 1024}, {1, 0}},        {{2048, 2048}, {1, 0}},        {{4096, 4096}, {1, 0}},
      {{8192, 8192}, {1, 0}},        {{1023, 1025}, {1, 0}},        {{2047, 2049}, {1, 0}},
      {{3000, 1000}, {1, 0}},        {{1000, 3000}, {1, 0}},        {{4097, 4095}, {1, 0}},
      {{8191, 8193}, {1, 0}},        {{65536, 64}, {1, 0}},         {{64, 65536}, {1, 0}},
      {{16, 1024, 1024}, {0, 2, 1}}, {{256, 256, 256}, {2, 1, 0}},  {{100, 200, 300}, {2, 1, 0}},
      {{128, 1024, 128}, {2, 0, 1}}, {{127, 1023, 129}, {1, 2, 0}}, {{512, 64, 512}, {2, 1, 0}},
  };
  for (const Case& c : cases) {
    for (const char* type : {"f32", "bf16", "s8", "f64"}) {
      std::vector<int64_t> turned;
      for (int d : c.permutation) turned.push_back(c.dims[d]);
      const std::string name =
          absl::StrCat(type, "[", absl::StrJoin(c.dims, ","), "] {", absl::StrJoin(c.permutation, ","), "}");
      if (filter != nullptr && name.find(filter) == std::string::npos) continue;
      auto kernel =
          TestKernel::Make(absl::StrCat("HloModule m\nENTRY e {\n  x = ", type, "[", absl::StrJoin(c.dims, ","),
                                        "] parameter(0)\n  ROOT r = ", type, "[", absl::StrJoin(turned, ","),
                                        "] transpose(x), dimensions={", absl::StrJoin(c.permutation, ","), "}\n}\n"));
      if (!kernel.ok()) {
        std::printf("%s %s\n", name.c_str(), kernel.status().ToString().c_str());
        continue;
      }
      const int64_t bytes = (*kernel)->OutputShapes()[0].byte_size();
      void* buffers[] = {HugePages(bytes + 64), HugePages(bytes + 64)};
      double copy = 1e9, took = 1e9;
      const double start = Now();
      for (int i = 0; i < 100 && (i < 4 || Now() - start < 400); ++i) {
        double t = Now();
        std::memcpy(buffers[1], buffers[0], bytes);
        copy = std::min(copy, Now() - t);
        t = Now();
        (*kernel)->RunRaw(buffers);
        took = std::min(took, Now() - t);
      }
      std::printf("%-28s %8.3f ms %6.2f GB/s, memcpy %6.2f GB/s, ratio %.2f  [%s]\n", name.c_str(), took,
                  static_cast<double>(bytes) / took * 1e-6, static_cast<double>(bytes) / copy * 1e-6, copy / took,
                  (*kernel)->plan().note.c_str());
      for (void* p : buffers) std::free(p);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* filter = argc > 1 ? argv[1] : nullptr;
  if (filter != nullptr && std::string(filter) == "transposes") {
    Transposes(argc > 2 ? argv[2] : nullptr);
    return 0;
  }
  Bench(filter, "add_4M",
        "  x = f32[4194304] parameter(0)\n  y = f32[4194304] parameter(1)\n  ROOT r = f32[4194304] add(x, y)\n");
  Bench(filter, "add_16K",
        "  x = f32[16384] parameter(0)\n  y = f32[16384] parameter(1)\n  ROOT r = f32[16384] add(x, y)\n");
  Bench(filter, "add_bf16_1M",
        "  x = bf16[1048576] parameter(0)\n  y = bf16[1048576] parameter(1)\n  ROOT r = bf16[1048576] add(x, y)\n");
  for (const char* op : {"exponential", "log", "tanh", "erf", "sine", "logistic"}) {
    Bench(filter, op, absl::StrCat("  x = f32[16384] parameter(0)\n  ROOT r = f32[16384] ", op, "(x)\n"));
  }
  Bench(filter, "gelu_1M", R"(
  x = f32[1048576] parameter(0)
  c = f32[] constant(0.044715)
  cb = f32[1048576] broadcast(c), dimensions={}
  k = f32[] constant(0.7978845608)
  kb = f32[1048576] broadcast(k), dimensions={}
  h = f32[] constant(0.5)
  hb = f32[1048576] broadcast(h), dimensions={}
  one = f32[] constant(1)
  ob = f32[1048576] broadcast(one), dimensions={}
  x2 = f32[1048576] multiply(x, x)
  x3 = f32[1048576] multiply(x2, x)
  cx = f32[1048576] multiply(x3, cb)
  s = f32[1048576] add(x, cx)
  ks = f32[1048576] multiply(s, kb)
  t = f32[1048576] tanh(ks)
  p = f32[1048576] add(t, ob)
  hx = f32[1048576] multiply(x, hb)
  ROOT r = f32[1048576] multiply(hx, p)
)");
  Bench(filter, "silu_bf16", R"(
  a = bf16[16384] parameter(0)
  b = bf16[16384] parameter(1)
  one = bf16[] constant(1)
  ob = bf16[16384] broadcast(one), dimensions={}
  n = bf16[16384] negate(a)
  x = bf16[16384] exponential(n)
  s = bf16[16384] add(ob, x)
  d = bf16[16384] divide(ob, s)
  m = bf16[16384] multiply(a, d)
  ROOT r = bf16[16384] multiply(m, b)
)");
  Bench(filter, "softmax_4096x1024", R"(
  x = f32[4096,1024] parameter(0)
  ninf = f32[] constant(-inf)
  zero = f32[] constant(0)
  mx = f32[4096] reduce(x, ninf), dimensions={1}, to_apply=max
  mb = f32[4096,1024] broadcast(mx), dimensions={0}
  d = f32[4096,1024] subtract(x, mb)
  ex = f32[4096,1024] exponential(d)
  s = f32[4096] reduce(ex, zero), dimensions={1}, to_apply=add
  sb = f32[4096,1024] broadcast(s), dimensions={0}
  ROOT r = f32[4096,1024] divide(ex, sb)
)",
        std::string(kAdd) + "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n");
  Bench(filter, "layernorm_4096x1024", R"(
  f = f32[4096,1024] parameter(0)
  g = f32[1024] parameter(1)
  beta = f32[1024] parameter(2)
  z = f32[] constant(0)
  n = f32[] constant(1024)
  nb = f32[4096] broadcast(n), dimensions={}
  s = f32[4096] reduce(f, z), dimensions={1}, to_apply=add
  mean = f32[4096] divide(s, nb)
  mb = f32[4096,1024] broadcast(mean), dimensions={0}
  d = f32[4096,1024] subtract(f, mb)
  q = f32[4096,1024] multiply(d, d)
  v = f32[4096] reduce(q, z), dimensions={1}, to_apply=add
  var = f32[4096] divide(v, nb)
  eps = f32[] constant(1e-5)
  eb = f32[4096] broadcast(eps), dimensions={}
  ve = f32[4096] add(var, eb)
  inv = f32[4096] rsqrt(ve)
  ib = f32[4096,1024] broadcast(inv), dimensions={0}
  nrm = f32[4096,1024] multiply(d, ib)
  gb = f32[4096,1024] broadcast(g), dimensions={1}
  bb = f32[4096,1024] broadcast(beta), dimensions={1}
  sc = f32[4096,1024] multiply(nrm, gb)
  ROOT y = f32[4096,1024] add(sc, bb)
)");
  Bench(filter, "transpose_2048",
        "  x = f32[2048,2048] parameter(0)\n  ROOT r = f32[2048,2048] transpose(x), dimensions={1,0}\n");
  Bench(filter, "transpose_s8_1024",
        "  x = s8[1024,1024] parameter(0)\n  ROOT r = s8[1024,1024] transpose(x), dimensions={1,0}\n");
  Bench(filter, "transpose_bf16_2048",
        "  x = bf16[2048,2048] parameter(0)\n  ROOT r = bf16[2048,2048] transpose(x), dimensions={1,0}\n");
  Bench(filter, "transpose_add_2048", R"(
  x = f32[2048,2048] parameter(0)
  y = f32[2048,2048] parameter(1)
  t = f32[2048,2048] transpose(x), dimensions={1,0}
  ROOT r = f32[2048,2048] add(t, y)
)");
  Bench(filter, "transpose_heads",
        "  x = f32[8,128,12,64] parameter(0)\n  ROOT r = f32[8,12,128,64] transpose(x), dimensions={0,2,1,3}\n");
  Bench(filter, "columns_4096",
        "  x = f32[4096,4096] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[4096] reduce(x, z), "
        "dimensions={0}, to_apply=add\n");
  Bench(filter, "columns_65536x64",
        "  x = f32[65536,64] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[64] reduce(x, z), dimensions={0}, "
        "to_apply=add\n");
  Bench(filter, "rows_4096",
        "  x = f32[4096,1024] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[4096] reduce(x, z), "
        "dimensions={1}, to_apply=add\n");
  Bench(filter, "sum_4M",
        "  x = f32[4194304] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[] reduce(x, z), dimensions={0}, "
        "to_apply=add\n");
  Bench(filter, "argmax_64x50257", R"(
  x = f32[64,50257] parameter(0)
  i = s32[64,50257] iota(), iota_dimension=1
  v0 = f32[] constant(-inf)
  i0 = s32[] constant(0)
  r = (f32[64], s32[64]) reduce(x, i, v0, i0), dimensions={1}, to_apply=f
  ROOT g = s32[64] get-tuple-element(r), index=1
)",
        R"(f {
  av = f32[] parameter(0)
  ai = s32[] parameter(1)
  bv = f32[] parameter(2)
  bi = s32[] parameter(3)
  gt = pred[] compare(av, bv), direction=GT
  nan = pred[] compare(av, av), direction=NE
  pick = pred[] or(gt, nan)
  eq = pred[] compare(av, bv), direction=EQ
  first = pred[] compare(ai, bi), direction=LT
  tie = pred[] and(eq, first)
  picki = pred[] or(pick, tie)
  v = f32[] select(pick, av, bv)
  i = s32[] select(picki, ai, bi)
  ROOT r = (f32[], s32[]) tuple(v, i)
}
)");
  Bench(filter, "cumsum_1024x4096",
        "  x = f32[1024,4096] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[1024,4096] reduce-window(x, z), "
        "window={size=1x4096 pad=0_0x4095_0}, to_apply=add\n");
  Bench(filter, "maxpool_112x112x64",
        "  x = f32[1,112,112,64] parameter(0)\n  z = f32[] constant(-inf)\n  ROOT r = f32[1,56,56,64] reduce-window(x, "
        "z), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, to_apply=max\n",
        "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n");
  Bench(filter, "embedding",
        "  t = f32[50257,768] parameter(0)\n  i = s32[1024] parameter(1)\n  ROOT r = f32[1024,768] gather(t, i), "
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,768}\n");
  Bench(filter, "embedding_grad",
        "  t = f32[5000,768] parameter(0)\n  i = s32[1024] parameter(1)\n  u = f32[1024,768] parameter(2)\n  ROOT r = "
        "f32[5000,768] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add\n");
  Bench(filter, "concat",
        "  x = f32[1024,512] parameter(0)\n  y = f32[1024,512] parameter(1)\n  ROOT r = f32[1024,1024] concatenate(x, "
        "y), dimensions={1}\n");
  Bench(filter, "rotate_half", R"(
  x = f32[1024,128] parameter(0)
  c = f32[1024,128] parameter(1)
  s = f32[1024,128] parameter(2)
  a = f32[1024,64] slice(x), slice={[0:1024],[0:64]}
  b = f32[1024,64] slice(x), slice={[0:1024],[64:128]}
  n = f32[1024,64] negate(b)
  h = f32[1024,128] concatenate(n, a), dimensions={1}
  xc = f32[1024,128] multiply(x, c)
  hs = f32[1024,128] multiply(h, s)
  ROOT r = f32[1024,128] add(xc, hs)
)");
  Bench(filter, "stencil_512", R"(
  x = f32[512,512] parameter(0)
  z = f32[] constant(0)
  up = f32[512,512] pad(x, z), padding=1_-1x0_0
  dn = f32[512,512] pad(x, z), padding=-1_1x0_0
  lf = f32[512,512] pad(x, z), padding=0_0x1_-1
  rt = f32[512,512] pad(x, z), padding=0_0x-1_1
  a = f32[512,512] add(up, dn)
  b = f32[512,512] add(lf, rt)
  ROOT r = f32[512,512] add(a, b)
)");
  return 0;
}
