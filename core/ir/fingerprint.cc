#include <bit>

#include "base/digest.h"
#include "core/ir/module.h"

namespace backplane {
namespace {

// Adds values of all types that describe an instruction.
class ValueDigest : public Digest {
 public:
  void Add(bool v) { Word(v ? 1 : 0); }
  void Add(int64_t v) { Word(static_cast<uint64_t>(v)); }
  void Add(double v) { Word(std::bit_cast<uint64_t>(v)); }
  void Add(const std::string& v) { Bytes(v.data(), v.size()); }
  void Add(PrimitiveType v) { Word(static_cast<uint64_t>(v)); }
  void Add(Precision v) { Word(static_cast<uint64_t>(v)); }
  void Add(EnumValue v) { Word(static_cast<uint64_t>(v.value)); }
  void Add(const Attributes& v) {
    for (const auto& [id, value] : v.entries()) {
      Add(std::string(AttrName(id)));
      std::visit([&](const auto& x) { Add(x); }, value);
    }
  }
  void Add(const std::optional<ResultAccuracy>& v) {
    if (!v) return;
    Word(static_cast<uint64_t>(v->mode));
    Add(v->atol), Add(v->rtol), Add(v->ulps);
  }
  void Add(const Shape& v) { Add(v.ToString(/*with_layout=*/true)); }
  void Add(const WindowDimension& v) {
    for (int64_t x : {v.size, v.stride, v.padding_low, v.padding_high, v.window_dilation, v.base_dilation}) Add(x);
    Add(v.window_reversal);
  }
  void Add(const Window& v) { Add(v.dimensions); }
  void Add(const ConvolutionDimensions& v) {
    for (int64_t x : {v.input_batch, v.input_feature, v.kernel_input_feature, v.kernel_output_feature, v.output_batch,
                      v.output_feature}) {
      Add(x);
    }
    Add(v.input_spatial), Add(v.kernel_spatial), Add(v.output_spatial);
  }
  void Add(const DotDimensions& v) {
    Add(v.lhs_batch), Add(v.rhs_batch), Add(v.lhs_contracting), Add(v.rhs_contracting);
  }
  void Add(const RaggedDotDimensions& v) { Add(v.dot), Add(v.lhs_ragged), Add(v.rhs_group); }
  void Add(const GatherDimensions& v) {
    Add(v.offset_dims), Add(v.collapsed_slice_dims), Add(v.start_index_map), Add(v.operand_batching_dims);
    Add(v.start_indices_batching_dims), Add(v.index_vector_dim);
  }
  void Add(const ScatterDimensions& v) {
    Add(v.update_window_dims), Add(v.inserted_window_dims), Add(v.scatter_dims_to_operand_dims);
    Add(v.input_batching_dims), Add(v.scatter_indices_batching_dims), Add(v.index_vector_dim);
  }
  void Add(const PaddingDimension& v) { Add(v.low), Add(v.high), Add(v.interior); }
  void Add(const SliceDimension& v) { Add(v.start), Add(v.limit), Add(v.stride); }
  void Add(const ReplicaGroups& v) {
    int64_t count = 1;
    for (int64_t n : v.iota ? v.iota->dims : Ints()) count *= n;
    if (count <= kMaxListedDevices || v.iota->dims.size() != 2) return Add(v.Expand());
    // A large list takes long to expand, and readers keep it in this form. No list has the length in front.
    Word(~uint64_t{0});
    Add(v.iota->dims);
    const bool in_order = v.iota->transpose_perm.empty();
    Add(in_order ? Ints() : v.iota->reshape_dims), Add(v.iota->transpose_perm);
  }
  void Add(const std::pair<int64_t, int64_t>& v) { Add(v.first), Add(v.second); }
  void Add(const DotAlgorithm& v) {
    Add(v.lhs_type), Add(v.rhs_type), Add(v.accumulation_type), Add(v.lhs_components), Add(v.rhs_components);
    Add(v.primitive_operations), Add(v.allow_imprecise_accumulation);
  }
  void Add(const OutputOperandAlias& v) { Add(v.output_index), Add(v.operand), Add(v.operand_index); }
  void Add(const FfiDictionary& v) {
    Word(v.size());
    for (const auto& [key, value] : v) {
      Add(key);
      Word(static_cast<uint64_t>(value.kind));
      Add(value.type), Add(value.bytes), Add(value.dictionary);
    }
  }
  void Add(const StringMap& v) {
    Word(v.size());
    for (const auto& [key, value] : v) Add(key), Add(value);
  }
  template <typename T>
  void Add(const std::vector<T>& v) {
    Word(v.size());
    for (const T& x : v) Add(x);
  }
  void Add(const Literal& v) {
    Add(v.shape());
    if (v.shape().IsTuple()) {
      for (const Literal& e : v.elements()) Add(e);
    } else if (v.shape().IsArray()) {
      Bytes(v.bytes(), static_cast<size_t>(v.byte_size()));
      for (int64_t i = 0; i < v.shape().rank(); ++i) {
        if (v.shape().is_dynamic(i)) Add(v.dynamic_size(i));
      }
    }
  }
};

// The digest of a value that instructions may share, computed once.
template <typename T>
class SharedDigests {
 public:
  template <typename Fn>
  const std::string& Get(const T* value, Fn&& add) {
    auto [known, is_new] = digests_.try_emplace(value);
    if (is_new) {
      ValueDigest d;
      add(d);
      known->second = d.Hex();
    }
    return known->second;
  }

 private:
  absl::flat_hash_map<const T*, std::string> digests_;
};

// Hashes callees before callers.
void AddComputations(const std::vector<Computation*>& order, ValueDigest& d) {
  absl::flat_hash_map<const Computation*, int64_t> computations;
  SharedDigests<Literal> literals;
  SharedDigests<Sharding> shardings;
  for (const Computation* c : order) {
    computations.emplace(c, static_cast<int64_t>(computations.size()));
    absl::flat_hash_map<const Instruction*, int64_t> instructions;
    d.Word(static_cast<uint64_t>(c->instruction_count()));
    for (const auto& i : c->instructions()) {
      instructions.emplace(i.get(), static_cast<int64_t>(instructions.size()));
      d.Add(std::string(OpName(i->opcode())));
      d.Add(i->shape());
      d.Word(static_cast<uint64_t>(i->operand_count()));
      for (const Instruction* o : i->operands()) d.Add(instructions.at(o));
      for (const Computation* callee : i->called()) d.Add(computations.at(callee));
      d.Add(i->attrs());
      if (i->Is(Opcode::kConstant)) {
        d.Add(literals.Get(&i->literal(), [&](ValueDigest& own) { own.Add(i->literal()); }));
      }
      const Sharding* sharding = i->sharding().get();
      d.Add(sharding == nullptr ? std::string()
                                : shardings.Get(sharding, [&](ValueDigest& own) { own.Add(sharding->ToString()); }));
      d.Add(i->frontend_attributes());
      d.Add(i->backend_config());
      d.Add(i->result_accuracy());
      for (const Instruction* p : i->control_predecessors()) d.Add(instructions.at(p));
    }
    d.Add(c->root() != nullptr ? instructions.at(c->root()) : int64_t{-1});
  }
}

}  // namespace

uint64_t Instruction::HashWithoutOperands() const {
  ValueDigest d;
  d.Word(static_cast<uint64_t>(opcode_));
  d.Add(attrs_), d.Add(backend_config_), d.Add(accuracy_);
  if (Is(Opcode::kConstant)) d.Add(*literal_);
  return d.Half();
}

std::string Module::Fingerprint() const {
  ValueDigest d;
  AddComputations(PostOrder(), d);
  d.Add(config_.num_replicas), d.Add(config_.num_partitions);
  d.Add(config_.use_spmd_partitioning), d.Add(config_.use_shardy_partitioner);
  for (const InputOutputAlias& a : config_.input_output_aliases) {
    d.Add(a.output_index), d.Add(a.parameter), d.Add(a.parameter_index), d.Add(a.must_alias);
  }
  for (const BufferDonor& b : config_.buffer_donors) d.Add(b.parameter), d.Add(b.parameter_index);
  d.Add(config_.parameter_layouts);
  d.Add(config_.result_layout);
  d.Add(config_.parameter_memory_kinds);
  d.Add(config_.result_memory_kinds);
  d.Add(config_.frontend_attributes);
  return d.Hex();
}

}  // namespace backplane
