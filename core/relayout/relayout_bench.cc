// Measures copies to tiled layouts and back, relative to a memcpy of the same size on the same core; counts logical
// bytes. `relayout_bench [repetitions]`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "core/relayout/relayout.h"

namespace {

// CPU time of this thread, because other programs share the machine.
double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <typename Fn>
double Seconds(Fn&& fn) {
  const double start = Now();
  fn();
  return Now() - start;
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 20;
  const char* pairs[][2] = {
      {"f32[2048,4096]{1,0}", "f32[2048,4096]{1,0:T(8,128)}"},
      {"bf16[2048,8192]{1,0}", "bf16[2048,8192]{1,0:T(8,128)(2,1)}"},
      {"s8[4096,8192]{1,0}", "s8[4096,8192]{1,0:T(32,128)(4,1)}"},
      {"f32[8,1024,1024]{2,1,0}", "f32[8,1024,1024]{2,1,0:T(8,128)}"},
      {"bf16[16,1024,1024]{2,1,0}", "bf16[16,1024,1024]{2,1,0:T(8,128)(2,1)}"},
      {"f32[8,1000,1000]{2,1,0}", "f32[8,1000,1000]{2,1,0:T(8,128)}"},
      {"bf16[16,1000,1000]{2,1,0}", "bf16[16,1000,1000]{2,1,0:T(8,128)(2,1)}"},
      {"f32[4096,2048]{1,0}", "f32[4096,2048]{0,1}"},
      {"bf16[4096,2048]{1,0}", "bf16[4096,2048]{0,1}"},
      {"s8[4096,4096]{1,0}", "s8[4096,4096]{0,1}"},
      {"f64[1024,4096]{1,0}", "f64[1024,4096]{1,0:T(8,128)}"},
      {"s8[16,1000,1000]{2,1,0}", "s8[16,1000,1000]{2,1,0:T(8,128)(4,1)}"},
      {"s4[4096,4096]{1,0}", "s4[4096,4096]{1,0:T(8,128)E(4)}"},
      {"s4[16,1000,1000]{2,1,0}", "s4[16,1000,1000]{2,1,0:T(8,128)E(4)}"},
  };
  for (const auto& pair : pairs) {
    for (int back = 0; back < 2; ++back) {
      const backplane::Shape from = *backplane::ParseShape(pair[back]), to = *backplane::ParseShape(pair[1 - back]);
      const backplane::Relayout plan = *backplane::Relayout::Plan(from, to);
      std::vector<std::byte> source(static_cast<size_t>(plan.source_bytes()), std::byte{1});
      std::vector<std::byte> target(static_cast<size_t>(plan.target_bytes()), std::byte{2});
      const size_t bytes = static_cast<size_t>(from.byte_size());
      std::vector<std::byte> a(bytes, std::byte{1}), b(bytes, std::byte{2});
      // Alternates the two, so that both see the same load.
      double copy = 1e9, took = 1e9;
      for (int i = 0; i < repetitions; ++i) {
        copy = std::min(copy, Seconds([&] { std::memcpy(b.data(), a.data(), bytes); }));
        took = std::min(took, Seconds([&] { plan.Run(source.data(), target.data()); }));
      }
      std::printf("%-32s -> %-44s %6.2f GB/s, memcpy %6.2f GB/s, ratio %.2f\n", pair[back], pair[1 - back],
                  static_cast<double>(bytes) / took / 1e9, static_cast<double>(bytes) / copy / 1e9, copy / took);
    }
  }
  return 0;
}
