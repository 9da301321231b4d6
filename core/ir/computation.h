// A function: instructions in topological order (operands before users), parameters and a root. The module owns its
// computations, and a computation owns its instructions. Not thread-safe while being changed.
#ifndef BACKPLANE_CORE_IR_COMPUTATION_H_
#define BACKPLANE_CORE_IR_COMPUTATION_H_

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/instruction.h"

namespace backplane {

class Module;

// The arguments of Computation::Add.
struct InstructionSpec {
  Opcode opcode{};
  Shape shape;  // of the result; used as is (AddChecked infers and compares)
  std::vector<Instruction*> operands;
  Attributes attrs;
  std::vector<Computation*> called;
  std::shared_ptr<const Literal> literal;  // for constants
  std::string name;                        // preferred name, made unique; the opcode if empty
  OpMetadata metadata;
};

class Computation {
 public:
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Module* parent() const { return module_; }
  bool IsEntry() const;

  Instruction* root() const { return root_; }
  void set_root(Instruction* root) { root_ = root; }
  const std::vector<Instruction*>& parameters() const { return parameters_; }
  Instruction* parameter(int64_t i) const { return parameters_[i]; }
  ProgramShape program_shape() const;
  bool is_fusion() const { return is_fusion_; }
  void set_is_fusion(bool v) { is_fusion_ = v; }
  // The thread that executes an asynchronous computation ("host", "sparsecore"); empty for the main thread.
  const std::string& execution_thread() const { return execution_thread_; }
  void set_execution_thread(std::string thread) { execution_thread_ = std::move(thread); }

  // Instructions in topological order. Iterate over a copy (Snapshot) to change the computation.
  const std::list<std::unique_ptr<Instruction>>& instructions() const { return instructions_; }
  std::vector<Instruction*> Snapshot() const;
  int64_t instruction_count() const { return static_cast<int64_t>(instructions_.size()); }

  // Appends an instruction with the shape as given. Parameters must be added in the order 0, 1, 2...
  Instruction* Add(InstructionSpec spec);
  // Appends an instruction after inferring and checking its shape. A valid spec.shape must agree with the inferred
  // shape.
  absl::StatusOr<Instruction*> AddChecked(InstructionSpec spec);
  // Like Add, but inserts the instruction before `position`.
  Instruction* AddBefore(Instruction* position, InstructionSpec spec);
  // Adds a copy of `of` (same attributes, metadata and called computations) with other operands and shape.
  Instruction* AddClone(const Instruction* of, const Shape& shape, absl::Span<Instruction* const> operands);

  // Removes an instruction that has no users and is not the root. Use RemoveParameter for parameters.
  absl::Status Remove(Instruction* instruction);
  // Removes a parameter without users and renumbers the following ones.
  absl::Status RemoveParameter(int64_t number);
  // Removes instructions that neither the root nor a side effect depends on, except parameters. Returns how many.
  int64_t RemoveDead();
  // Restores the topological order after operands were replaced by later instructions. Deterministic.
  void SortTopologically();

  std::string ToString() const;

 private:
  friend class Module;
  friend class Instruction;
  Computation() = default;
  std::string name_;
  Module* module_ = nullptr;
  std::list<std::unique_ptr<Instruction>> instructions_;
  std::vector<Instruction*> parameters_;
  Instruction* root_ = nullptr;
  bool is_fusion_ = false;
  std::string execution_thread_;
  uint64_t traversals_ = 0;  // number of traversals so far; instructions store the last one that visited them
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_IR_COMPUTATION_H_
