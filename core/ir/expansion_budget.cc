#include "core/ir/expansion_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace backplane {
namespace {

// A payload of two megabytes may stand in five hundred operations, and the pairs of 16,384 devices in four thousand.
constexpr int64_t kMinLimit = int64_t{1} << 30;
// A loop over arrays takes some twenty bytes for each of them in a program, and four elements of tuples as
// instructions.
constexpr int64_t kMaxExpansion = 128;

int64_t Bytes(const std::string& text) { return static_cast<int64_t>(text.size()); }

int64_t Bytes(const StringMap& map) {
  int64_t bytes = 0;
  for (const auto& [key, value] : map) bytes += 64 + Bytes(key) + Bytes(value);
  return bytes;
}

template <typename T>
int64_t ElementBytes(const std::vector<T>& elements) {
  return static_cast<int64_t>(elements.size() * sizeof(T));
}

// Of an attribute. What the rank of an array bounds does not count.
struct AttributeBytes {
  template <typename T>
  int64_t operator()(const T&) const {
    return 0;
  }
  int64_t operator()(const std::string& text) const { return Bytes(text); }
  int64_t operator()(const Ints& numbers) const { return ElementBytes(numbers); }
  int64_t operator()(const Pairs& pairs) const { return ElementBytes(pairs); }
  int64_t operator()(const Precisions& precisions) const { return ElementBytes(precisions); }
  int64_t operator()(const std::vector<Shape>& shapes) const {
    int64_t bytes = ElementBytes(shapes);
    for (const Shape& shape : shapes) bytes += MeasureBytes(shape);
    return bytes;
  }
  int64_t operator()(const ReplicaGroups& groups) const {
    int64_t bytes = ElementBytes(groups.groups) + Bytes(groups.mesh);
    for (const Ints& group : groups.groups) bytes += 16 + ElementBytes(group);
    return bytes;
  }
  int64_t operator()(const OutputOperandAliases& aliases) const {
    int64_t bytes = ElementBytes(aliases);
    for (const OutputOperandAlias& a : aliases) bytes += ElementBytes(a.output_index) + ElementBytes(a.operand_index);
    return bytes;
  }
  int64_t operator()(const FfiDictionary& dictionary) const {
    int64_t bytes = 0;
    for (const auto& [name, value] : dictionary) {
      bytes += static_cast<int64_t>(64 + sizeof(FfiAttribute)) + Bytes(name) + Bytes(value.bytes) +
               (*this)(value.dictionary);
    }
    return bytes;
  }
};

}  // namespace

int64_t MeasureBytes(const Shape& shape) {
  int64_t bytes = ElementBytes(shape.tuple_shapes());
  for (const Shape& element : shape.tuple_shapes()) bytes += MeasureBytes(element);
  if (shape.rank() > 6) bytes += 16 * shape.rank();
  return bytes;
}

int64_t MeasureBytes(const Attributes& attributes) {
  int64_t bytes = 0;
  for (const auto& [id, value] : attributes.entries()) bytes += std::visit(AttributeBytes(), value);
  return bytes;
}

int64_t MeasureBytes(const Sharding& sharding) {
  int64_t bytes = ElementBytes(sharding.tile_dims) + ElementBytes(sharding.devices) + Bytes(sharding.mesh) +
                  Bytes(sharding.metadata) + ElementBytes(sharding.tuple);
  for (const Sharding& element : sharding.tuple) bytes += MeasureBytes(element);
  return bytes;
}

int64_t MeasureBytes(const Instruction& i) {
  const OpMetadata& m = i.metadata();
  return MeasureBytes(i.shape()) + MeasureBytes(i.attrs()) + Bytes(i.frontend_attributes()) + Bytes(m.op_type) +
         Bytes(m.op_name) + Bytes(m.source_file) + Bytes(m.more) + Bytes(i.backend_config());
}

ExpansionBudget::ExpansionBudget(int64_t written)
    : written_(written), limit_(std::max(kMinLimit, kMaxExpansion * written)), left_(limit_) {}

absl::Status ExpansionBudget::Spend(int64_t bytes) {
  left_ -= bytes;
  if (left_ >= 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a program of ", written_, " bytes expands to more than ", limit_,
                                                   " bytes of types, attributes and names [expansion_budget]"));
}

}  // namespace backplane
