// Executes machine code of AMD GPUs on the host: the code objects that the plugin compiles, instruction by instruction.
//
// A code object is an ELF file for the HSA runtime (EM_AMDGPU) with kernels for one machine, gfx1100 (wave32) or gfx942
// (wave64). LLVM's disassembler decodes it; the interpreter gives each instruction its meaning by the ISA manuals
// ("RDNA3 Instruction Set Architecture", "AMD Instinct MI300 Instruction Set Architecture"). An instruction that it
// does not know is an error that names the instruction, never a guess.
//
// The interpreter finds errors that a GPU does not report:
//   - a register that is read or overwritten while a load into it is outstanding: s_waitcnt is missing or too weak.
//     Both machines read the data of a store when they issue it, so a store holds no registers;
//   - a byte of LDS that two waves access between two barriers, at least one of them writing, unless both do so by
//     atomic operations. An access that a wave has not waited for at a barrier goes on behind it;
//   - a barrier that some waves of a work group never reach, because they have ended;
//   - lanes of WMMA factors that have to be equal and are not;
//   - an access to memory that MemoryGuard does not know, or outside of the LDS of the work group;
//   - a program counter outside of the kernel's code.
// Each is an error (FailedPrecondition, for memory OutOfRange) that names kernel, instruction, its text, wave and lane.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_INTERPRETER_H_
#define BACKPLANE_PLUGINS_HIP_ISA_INTERPRETER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::hip::isa {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// Decides which memory a kernel may access. Called from each thread that runs Execute.
class MemoryGuard {
 public:
  virtual ~MemoryGuard() = default;
  // Whether `bytes` from `address` on are memory of the device (or host memory that it can access).
  virtual bool IsAccessible(uint64_t address, uint64_t bytes, bool write) const = 0;
};

// What a launch passes to the kernel besides the explicit arguments, by the names of the metadata (".value_kind").
struct KernelArgument {
  std::string value_kind;  // "global_buffer", "by_value", "hidden_block_count_x", ...
  uint32_t offset = 0, size = 0;
};

// A kernel, as the metadata and the kernel descriptor of its code object state it.
struct KernelInfo {
  std::string name;
  uint32_t kernarg_bytes = 0;  // hidden arguments included
  uint32_t lds_bytes = 0;      // static
  uint32_t scratch_bytes = 0;  // of each lane
  uint32_t vgprs = 0, agprs = 0, sgprs = 0, vgpr_spills = 0, sgpr_spills = 0;
  uint32_t wave_size = 0, max_block_threads = 0;
  std::vector<KernelArgument> arguments;
};

// Sums over a launch.
struct Statistics {
  int64_t instructions = 0;  // of waves
  int64_t valu = 0, salu = 0, matrix = 0, global_loads = 0, global_stores = 0, lds_accesses = 0, barriers = 0;
  // Extra passes that LDS accesses of a wave take, as lanes use different words of one bank (32 banks of 4 bytes). A
  // pass serves as many lanes as fill the banks once: 32 for accesses of up to 4 bytes, 16 of 8, 8 of 16. These are
  // neighbours, but not for loads of 16 bytes on gfx942: 0 to 3 with 20 to 23 and so on (local_memory.cc).
  int64_t lds_bank_conflicts = 0;
  int64_t global_load_bytes = 0, global_store_bytes = 0;
  std::map<std::string, int64_t> by_mnemonic;  // "v_wmma_f32_16x16x16_f16"

  void Add(const Statistics& other);
};

class CodeObject {
 public:
  virtual ~CodeObject() = default;
  virtual const std::string& target() const = 0;  // "gfx1100"
  virtual const std::vector<KernelInfo>& kernels() const = 0;
  // A global variable's initial bytes (constant tables) live at these addresses while the code object lives.
  virtual absl::StatusOr<uint64_t> FindSymbolAddress(absl::string_view name) const = 0;
  // Whether the range lies in memory of the code object itself: constant tables.
  virtual bool Owns(uint64_t address, uint64_t bytes) const = 0;
};

// Copies `elf`. Returns InvalidArgument if it is no code object, and Unimplemented, with the name, for a machine that
// is not supported.
absl::StatusOr<std::unique_ptr<CodeObject>> LoadCodeObject(absl::string_view elf);

struct Launch {
  std::string kernel;
  Dim3 blocks, threads;                // of the grid; of each work group
  uint32_t dynamic_lds = 0;            // bytes behind the static ones
  absl::Span<const uint8_t> kernarg;   // the explicit arguments; hidden ones are filled in by the interpreter
  const MemoryGuard* guard = nullptr;  // null: all memory is accessible
  // The work groups to run, numbered with x fastest; no count: all from the first one on. Threads of the host can so
  // divide a grid, whose kernel sees all of it.
  uint64_t first_block = 0, block_count = 0;
  // Instructions of waves, after which the launch is given up with DeadlineExceeded; 0: no limit. A program that waits
  // for a work group behind its own would never end.
  int64_t max_instructions = 0;
};

// Runs the work groups of the launch one after another, and within a group one wave after another, each until it
// reaches a barrier or has run for some thousand instructions. Registers and LDS hold arbitrary values before a program
// writes them. Several threads may execute one code object at once; global atomics are atomic among them.
absl::StatusOr<Statistics> Execute(const CodeObject& code, const Launch& launch);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_INTERPRETER_H_
