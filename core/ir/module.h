// A program: computations, one of which is the entry, and program-wide configuration. A module owns its computations.
//
// Text: HloModule jit_f, input_output_alias={ {0}: (1, {}, may-alias) },
// entry_computation_layout={(f32[2]{0})->f32[2]{0}}, num_partitions=2. parse(print(m)) == m; ids and names are
// deterministic. Not thread-safe while being changed.
#ifndef BACKPLANE_CORE_IR_MODULE_H_
#define BACKPLANE_CORE_IR_MODULE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/computation.h"

namespace backplane {

// Output {output_index} may (or must) reuse the memory of parameter `parameter` at {parameter_index}.
struct InputOutputAlias {
  Ints output_index;
  int64_t parameter = 0;
  Ints parameter_index;
  bool must_alias = false;
  bool operator==(const InputOutputAlias&) const = default;
};
// A parameter whose buffer the program may reuse once the parameter is dead.
struct BufferDonor {
  int64_t parameter = 0;
  Ints parameter_index;
  bool operator==(const BufferDonor&) const = default;
};

struct ModuleConfig {
  int64_t num_replicas = 1, num_partitions = 1;
  bool use_spmd_partitioning = false;
  bool use_shardy_partitioner = false;
  std::vector<InputOutputAlias> input_output_aliases;
  std::vector<BufferDonor> buffer_donors;
  // Layouts that the caller requested, for each parameter and the result. A shape without layout requests the default.
  std::vector<Shape> parameter_layouts;                                  // empty: all default
  Shape result_layout;                                                   // invalid: default
  std::vector<std::string> parameter_memory_kinds, result_memory_kinds;  // "" default; empty vector: all default
  StringMap frontend_attributes;
  // Other fields of the module's text or proto, kept as text without effect: is_scheduled, propagation flags, ...
  StringMap annotations;
  std::string stack_frames;  // the tables FileNames to StackFrames as text; metadata refers to their rows
};

class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  Computation* AddComputation(std::string wished_name);  // makes the name unique
  void RemoveComputation(Computation* computation);      // must have no callers
  int64_t RemoveUnreachableComputations();
  Computation* entry() const { return entry_; }
  void set_entry(Computation* c) { entry_ = c; }
  // Computations in an order with callees before callers.
  const std::vector<std::unique_ptr<Computation>>& computations() const { return computations_; }
  // Returns `from` (or the entry) and all that it calls, callees before callers; the order is deterministic.
  std::vector<Computation*> PostOrder() const;
  static std::vector<Computation*> PostOrder(const Computation* from);

  ModuleConfig& config() { return config_; }
  const ModuleConfig& config() const { return config_; }

  std::unique_ptr<Module> Clone() const;
  // Adds a copy of `of`, which may belong to another module, and of all computations that it calls.
  Computation* CloneComputation(const Computation* of);
  std::string ToString() const;
  // Returns a 128-bit digest, as 32 hex digits, of everything that affects the result: not names, not metadata.
  std::string Fingerprint() const;

  int64_t NextId() { return next_id_++; }
  std::string UniqueName(absl::string_view wished);  // "add" -> "add.7"; keeps a name with a suffix if it is free

 private:
  std::string name_;
  std::vector<std::unique_ptr<Computation>> computations_;
  Computation* entry_ = nullptr;
  ModuleConfig config_;
  int64_t next_id_ = 0;
  absl::flat_hash_map<std::string, int64_t> names_;
};

// Verifies inference, structure (order, consistent users and operands, roots, parameter numbers, signatures of called
// computations, no recursion) and uniqueness of names. Returns the first error, which names computation and
// instruction. Returns ResourceExhausted [call_depth] if calls are nested deeper than 512 levels.
absl::Status VerifyModule(const Module& module);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IR_MODULE_H_
