// The schedule of one run of a compiled program, kernel by kernel in the order of execution: times from the clock and
// memory from the memory plan. Reports, timelines and cost analysis are derived from it.
//
// Plain data. BuildSchedule makes it once per compilation; afterwards it is read-only and can be shared between
// threads. Times are in seconds from the start of the run, and sizes are in bytes.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/tpu_emulator/machine/clock.h"

namespace backplane::tpu {

// The number of a memory space in the text of layouts, S(n).
inline int64_t MemorySpace(Space space) { return space == Space::kVmem ? 1 : space == Space::kCmem ? 3 : 0; }

// The source of an instruction, as far as the host gave it.
struct Origin {
  std::string op_name;      // the framework's name: "jit(step)/dot_general"; may be empty
  std::string source_file;  // empty if unknown
  int64_t source_line = 0;
};

// An array of the program in memory.
struct ScheduledBuffer {
  enum class Kind : uint8_t { kArgument, kResult, kTemporary, kConstant };
  std::string name;   // the instruction that makes it: "fusion.3"
  std::string shape;  // with layout: "bf16[9,129]{1,0:T(8,128)(2,1)}"
  Kind kind = Kind::kTemporary;
  Space space = Space::kHbm;
  Origin origin;
  int64_t padded_bytes = 0, unpadded_bytes = 0;
  // The first and last kernel of its lifetime, by number: from the one that makes it to the last one that reads it.
  // Arguments and constants live from kernel 0 on, and results until the end.
  int64_t first_kernel = 0, last_kernel = 0;
  // A suggestion for the user that makes the array smaller; empty if it has little padding.
  std::string remedy;
};

// A loop with the kernels [first_kernel, end_kernel). Loops may nest; outer loops are listed before inner ones.
struct ScheduledLoop {
  std::string name;        // of the while instruction
  int64_t parent = -1;     // the enclosing loop, by number; -1: none
  int64_t trip_count = 1;  // iterations each time the loop is entered
  bool known = true;  // false: the trip count is unknown at compile time; trip_count is 1 and totals are lower bounds
  int64_t first_kernel = 0, end_kernel = 0;
};

// An operand that is copied out of HBM before the kernel that reads it, while earlier kernels leave HBM idle.
struct ScheduledPrefetch {
  int64_t buffer = 0;        // by number
  int64_t kernel = 0;        // the kernel that reads the copy
  int64_t first_kernel = 0;  // the first kernel during which the copy runs; `kernel` itself if there is none before
  Space space = Space::kVmem;
  int64_t bytes = 0;
  double seconds = 0;       // the whole copy
  double wait_seconds = 0;  // the part that the kernel waits for; included in its time
};

// Why a program does not fit. The schedule describes how it would run if it did.
struct ScheduledRefusal {
  std::string message;        // in the words of the machine's compiler
  Space space = Space::kHbm;  // the memory that is too small: HBM, or VMEM for the windows of one kernel
  int64_t kernel = -1;        // the kernel at the peak, or the one that needs too much VMEM; -1: there are no kernels
  int64_t required_bytes = 0, limit_bytes = 0;
  std::vector<int64_t> buffers;  // the buffers in memory at that kernel, by number, largest first
  // One sentence each, most likely first. Remedies for single buffers are in the buffers.
  std::vector<std::string> remedies;
};

struct ScheduledKernel {
  std::string name;  // its instruction: "fusion.3", "all-reduce.1"
  // "matmul", "convolution", "elementwise", "reduction", "movement", "copy", "sort", "collective", ...
  std::string category;
  std::string contents;                // its operations, most frequent first: "3 multiply, add, exponential, reduce"
  Origin origin;                       // of its main instruction
  KernelTime time;                     // of one execution
  int64_t executions = 1;              // in one run: the product of the enclosing trip counts, or INT64_MAX
  int64_t loop = -1;                   // the innermost enclosing loop, by number; -1: none
  double start_seconds = 0;            // of the first execution
  std::vector<int64_t> reads, writes;  // buffers, by number
  int64_t scoped_vmem_bytes = 0;       // windows and scratch
  double flops = 0;                    // of one execution: 2 per multiply-add, 1 per elementwise operation
  double transcendentals = 0;
  double hbm_bytes = 0;  // padded bytes moved in one execution, including the prefetch of its operands
  // HBM cycles that are used for prefetches of later kernels' operands. The sum with time.hbm_cycles is at most the
  // time of the kernel.
  double prefetch_cycles = 0;
};

struct Schedule {
  std::string module_name;
  std::string machine_name;
  std::vector<ScheduledKernel> kernels;
  std::vector<ScheduledBuffer> buffers;
  std::vector<ScheduledLoop> loops;
  std::vector<ScheduledPrefetch> prefetches;  // by kernel
  std::vector<int64_t> hbm_in_use;            // during each kernel
  int64_t hbm_capacity = 0, hbm_peak = 0;
  // Totals of one run; loops count trip-count times.
  double seconds = 0, cycles = 0, flops = 0, transcendentals = 0, hbm_bytes = 0;
  std::optional<ScheduledRefusal> refusal;  // set if the program does not fit
  std::vector<std::string> notes;           // what the estimates do not cover, one sentence each
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_H_
