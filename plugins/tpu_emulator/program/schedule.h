// What one run of a compiled program does on the machine, kernel by kernel: the clock's and the memory plan's answers
// for a whole program, in the order of execution. Reports, timelines and cost analysis are views of it.
//
// Plain data: made once when a program is compiled (BuildSchedule), read by everyone else, safe to share between
// threads. Times are in seconds from the start of the run, sizes in bytes.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/tpu_emulator/machine/clock.h"

namespace backplane::tpu {

// The number of a memory in the text of layouts, S(n).
inline int64_t MemorySpace(Space space) { return space == Space::kVmem ? 1 : space == Space::kCmem ? 3 : 0; }

// Where an instruction comes from, as far as the host told.
struct Origin {
  std::string op_name;      // the framework's name: "jit(step)/dot_general"; empty where there is none
  std::string source_file;  // empty where it is not known
  int64_t source_line = 0;
};

// An array of the program that has a place in memory.
struct ScheduledBuffer {
  enum class Kind : uint8_t { kArgument, kResult, kTemporary, kConstant };
  std::string name;   // of the instruction that makes it: "fusion.3"
  std::string shape;  // with layout: "bf16[9,129]{1,0:T(8,128)(2,1)}"
  Kind kind = Kind::kTemporary;
  Space space = Space::kHbm;
  Origin origin;
  int64_t padded_bytes = 0, unpadded_bytes = 0;
  // Kernels, by number, between which it takes room: from the one that makes it to the last one that reads it.
  // Arguments and constants are there from 0 on, results until the end.
  int64_t first_kernel = 0, last_kernel = 0;
  // Empty where padding takes little; else what would make it smaller, in a sentence for the user.
  std::string remedy;
};

// A loop with its kernels [first_kernel, end_kernel). Loops nest and are listed outer before inner.
struct ScheduledLoop {
  std::string name;        // of the while instruction
  int64_t parent = -1;     // the loop around it, by number; -1: none
  int64_t trip_count = 1;  // turns of one entry
  bool known = true;       // false: the count is decided at run time; trip_count is then 1 and totals are lower bounds
  int64_t first_kernel = 0, end_kernel = 0;
};

// An operand of a kernel that is copied out of HBM ahead of it, while earlier kernels leave HBM idle.
struct ScheduledPrefetch {
  int64_t buffer = 0;        // by number
  int64_t kernel = 0;        // that reads the copy
  int64_t first_kernel = 0;  // the first one beside which the copy runs; `kernel` itself where nothing came before
  Space space = Space::kVmem;
  int64_t bytes = 0;
  double seconds = 0;       // of HBM, in all
  double wait_seconds = 0;  // part of them that the kernel waits; in its time
};

// Why a program is not run: it does not fit. Its schedule tells what it would do if it did.
struct ScheduledRefusal {
  std::string message;        // in the words of the machine's compiler
  Space space = Space::kHbm;  // that is too small: HBM, or VMEM for one kernel's windows
  int64_t kernel = -1;        // the fullest moment, or the kernel that asks for too much VMEM; -1: there are no kernels
  int64_t required_bytes = 0, limit_bytes = 0;
  std::vector<int64_t> buffers;       // what takes the room at that moment, by number, the largest first
  std::vector<std::string> remedies;  // a sentence each, the likeliest first; those of single buffers stand with them
};

struct ScheduledKernel {
  std::string name;  // of its instruction: "fusion.3", "all-reduce.1"
  std::string
      category;  // "matmul", "convolution", "elementwise", "reduction", "movement", "copy", "sort", "collective", ...
  std::string contents;                // the operations in it, commonest first: "3 multiply, add, exponential, reduce"
  Origin origin;                       // of its most telling instruction
  KernelTime time;                     // of one execution
  int64_t executions = 1;              // in one run: the product of the trip counts around it
  int64_t loop = -1;                   // the innermost loop around it, by number; -1: none
  double start_seconds = 0;            // of its first execution; inside a loop, of the loop's first turn
  std::vector<int64_t> reads, writes;  // buffers, by number
  int64_t scoped_vmem_bytes = 0;       // windows and scratch
  double flops = 0;                    // of one execution: 2 for a multiply-add, 1 for an elementwise operation
  double transcendentals = 0;
  double hbm_bytes = 0;  // padded, moved in one execution; what is copied ahead counts with the kernel that reads it
  // Of HBM, while this kernel runs, for operands of later ones. With time.hbm_cycles no more than the kernel takes.
  double prefetch_cycles = 0;
};

struct Schedule {
  std::string module_name;
  std::string machine_name;
  std::vector<ScheduledKernel> kernels;
  std::vector<ScheduledBuffer> buffers;
  std::vector<ScheduledLoop> loops;
  std::vector<ScheduledPrefetch> prefetches;  // by kernel
  std::vector<int64_t> hbm_in_use;            // while each kernel runs
  int64_t hbm_capacity = 0, hbm_peak = 0;
  // Of one run; loops counted by their turns.
  double seconds = 0, cycles = 0, flops = 0, transcendentals = 0, hbm_bytes = 0;
  std::optional<ScheduledRefusal> refusal;  // not there: the program fits
  std::vector<std::string> notes;           // what the figures leave out, a sentence each
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_H_
