// One instruction: an opcode, a result shape, operands, attributes, and the computations it calls.
//
// Semantics: instructions are pure unless they have the trait kSideEffect. Integer arithmetic wraps. Float operations
// are IEEE, and a pass may not reassociate them (reductions may run in any order). Out-of-range gather and slice starts
// are clamped. Ownership: a Computation owns its instructions. Operands and users are plain pointers within the same
// computation. Called computations belong to the same module. Not thread-safe while being changed.
#ifndef BACKPLANE_CORE_IR_INSTRUCTION_H_
#define BACKPLANE_CORE_IR_INSTRUCTION_H_

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/ir/users.h"
#include "core/ops/op_info.h"

namespace backplane {

class Computation;

// The source of an instruction. Text: metadata={op_type="" op_name="jit(f)/add" source_file="f.py" source_line=3}.
struct OpMetadata {
  std::string op_type, op_name, source_file;
  int32_t source_line = 0;
  int32_t stack_frame_id = 0;  // row of the stack frame table of the module; 0: none
  std::string more;            // other fields as text, in order: deduplicated_name="add.3" preserve_layout=true
  bool empty() const { return op_type.empty() && op_name.empty() && source_file.empty() && more.empty(); }
  bool operator==(const OpMetadata&) const = default;
};

// Returns the first bytes of a text that instructions share in a program, such as the name of a file: each has its own
// copy. Does not cut a character of UTF-8, because readers of the compiled module refuse a part of one.
inline constexpr size_t kMaxMetadataText = 2048;
std::string CutMetadataText(absl::string_view text);

class Instruction {
 public:
  Opcode opcode() const { return opcode_; }
  const OpInfo& info() const { return Info(opcode_); }
  bool Is(Opcode o) const { return opcode_ == o; }
  int64_t id() const { return id_; }                 // unique in the module, increasing in creation order
  const std::string& name() const { return name_; }  // unique in the module, without %
  void set_name(std::string name) { name_ = std::move(name); }

  const Shape& shape() const { return shape_; }
  Shape& mutable_shape() { return shape_; }  // for layouts; a pass that changes dimensions must rebuild the users

  int64_t operand_count() const { return static_cast<int64_t>(operands_.size()); }
  Instruction* operand(int64_t i) const { return operands_[i]; }
  absl::Span<Instruction* const> operands() const { return operands_; }
  Users users() const { return Users(first_use_, user_count_); }  // each user once, in order of first use
  bool IsRoot() const;
  bool HasSideEffect() const;  // of the instruction or of a computation that it calls
  Computation* parent() const { return parent_; }

  absl::Span<Computation* const> called() const { return called_; }
  Computation* called(int64_t i) const { return called_[i]; }
  void set_called(int64_t i, Computation* c) { called_[i] = c; }

  const Attributes& attrs() const { return attrs_; }
  Attributes& mutable_attrs() { return attrs_; }

  // Typed views over the attributes.
  const Ints& dimensions() const { return attrs_.GetInts(AttrId::kDimensions); }
  int64_t parameter_number() const { return attrs_.GetInt(AttrId::kParameterNumber); }
  int64_t tuple_index() const { return attrs_.GetInt(AttrId::kTupleIndex); }
  const Window& window() const { return attrs_.Get<Window>(AttrId::kWindow); }
  const DotDimensions& dot_dims() const { return attrs_.Get<DotDimensions>(AttrId::kDotDims); }
  const ConvolutionDimensions& conv_dims() const { return attrs_.Get<ConvolutionDimensions>(AttrId::kConvolutionDims); }
  const GatherDimensions& gather_dims() const { return attrs_.Get<GatherDimensions>(AttrId::kGatherDims); }
  const ScatterDimensions& scatter_dims() const { return attrs_.Get<ScatterDimensions>(AttrId::kScatterDims); }
  const PaddingConfig& padding() const { return attrs_.Get<PaddingConfig>(AttrId::kPadding); }
  const SliceConfig& slices() const { return attrs_.Get<SliceConfig>(AttrId::kSlices); }
  ComparisonDirection direction() const { return attrs_.GetEnum<ComparisonDirection>(AttrId::kDirection); }
  const std::string& custom_call_target() const { return attrs_.GetString(AttrId::kCustomCallTarget); }

  const Literal& literal() const { return *literal_; }  // constants only
  const OpMetadata& metadata() const { return metadata_; }
  void set_metadata(OpMetadata m) { metadata_ = std::move(m); }
  const std::shared_ptr<const Sharding>& sharding() const { return sharding_; }
  void set_sharding(std::shared_ptr<const Sharding> s) { sharding_ = std::move(s); }
  const StringMap& frontend_attributes() const { return frontend_; }
  StringMap& mutable_frontend_attributes() { return frontend_; }
  const std::optional<ResultAccuracy>& result_accuracy() const { return accuracy_; }
  void set_result_accuracy(std::optional<ResultAccuracy> a) { accuracy_ = a; }
  const std::string& backend_config() const { return backend_config_; }  // text that only the backend interprets
  void set_backend_config(std::string c) { backend_config_ = std::move(c); }
  // Annotations of other tools, kept as text: origin (the value in an original program), statistics, ... Null if there
  // are none.
  const std::shared_ptr<const StringMap>& annotations() const { return annotations_; }
  void set_annotations(std::shared_ptr<const StringMap> a) { annotations_ = std::move(a); }
  const std::vector<Instruction*>& control_predecessors() const { return control_predecessors_; }
  bool HasControlDependencies() const { return !control_predecessors_.empty() || !control_successors_.empty(); }
  void DropControlDependencies();  // in both directions
  void AddControlPredecessor(Instruction* p) {
    control_predecessors_.push_back(p);
    p->control_successors_.push_back(this);
  }

  void ReplaceOperand(int64_t i, Instruction* with);
  void ReplaceAllUsesWith(Instruction* with);  // including the root

  // Returns the context for the functions of core/ops. `storage` backs its spans; both must outlive the context.
  struct ContextStorage {
    absl::InlinedVector<const Shape*, 4> operands;
    std::vector<ProgramShape> called;
  };
  OpContext Context(ContextStorage& storage) const;

  // Hashes opcode, attributes, backend config, accuracy and the value of a constant. Equal for instructions that differ
  // only in operands, called computations, name, shape and metadata. The same in every process.
  uint64_t HashWithoutOperands() const;

  // Returns one line of HLO text, without trailing newline.
  std::string ToString() const;

 private:
  friend class Computation;
  Instruction() = default;
  void SetOperands(absl::Span<Instruction* const> operands);  // call once
  void AddUse(int64_t i);                                     // adds the use by operand i to the users of its value
  void RemoveUse(int64_t i);
  // Removes the instruction from the user lists of its operands and from all control dependencies.
  void DropAllReferences();
  Opcode opcode_{};
  int64_t id_ = 0;
  std::string name_;
  Shape shape_;
  absl::InlinedVector<Instruction*, 3> operands_;
  absl::InlinedVector<Use, 3> uses_;                // one per operand; never resized, because user lists point into it
  Use *first_use_ = nullptr, *last_use_ = nullptr;  // uses of this value
  size_t user_count_ = 0;
  std::vector<Computation*> called_;
  Attributes attrs_;
  std::shared_ptr<const Literal> literal_;
  OpMetadata metadata_;
  std::shared_ptr<const Sharding> sharding_;
  StringMap frontend_;
  std::optional<ResultAccuracy> accuracy_;
  std::string backend_config_;
  std::shared_ptr<const StringMap> annotations_;
  std::vector<Instruction*> control_predecessors_;
  std::vector<Instruction*> control_successors_;  // one entry per control dependency
  uint64_t last_traversal_ = 0;                   // last traversal of the parent that visited this instruction
  Computation* parent_ = nullptr;
  std::list<std::unique_ptr<Instruction>>::iterator position_;  // position in the parent's list
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_IR_INSTRUCTION_H_
