// Converts shapes, literals, shardings and other values between C++ and protobuf. Private to this folder.
#ifndef BACKPLANE_CORE_IMPORT_PROTO_PROTO_VALUES_H_
#define BACKPLANE_CORE_IMPORT_PROTO_PROTO_VALUES_H_

#include "core/import/proto/hlo.messages.h"
#include "core/ir/module.h"
#include "core/text/mesh_groups.h"

namespace backplane {

// Returns InvalidArgument with the message "hlo proto: " and `what`.
absl::Status InvalidProto(absl::string_view what);

// An array without a layout is written with the row-major one and a mark, because other readers require a layout on
// each array. The layout of a scalar has no meaning and is not kept.
void ShapeToProto(const Shape& shape, proto::ShapeProto* out);
absl::StatusOr<Shape> ShapeFromProto(const proto::ShapeProto& in);
void ProgramShapeToProto(const ProgramShape& program, proto::ProgramShapeProto* out);

void LiteralToProto(const Literal& literal, proto::LiteralProto* out);
// Returns a literal of the expected shape. The shape in the message must agree with it.
absl::StatusOr<Literal> LiteralFromProto(const proto::LiteralProto& in, const Shape& shape);

// Convert meshes and mesh axes. The FromProto functions check that the axes exist.
void MeshToProto(const Mesh& mesh, proto::MeshProto* out);
absl::StatusOr<Mesh> MeshFromProto(const proto::MeshProto& in);
void AxesToProto(const std::vector<MeshAxis>& axes, proto::RepeatedPtrField<proto::AxisRefProto>* out);
absl::StatusOr<std::vector<MeshAxis>> AxesFromProto(const proto::RepeatedPtrField<proto::AxisRefProto>& in,
                                                    const Mesh& mesh);

// Convert values that HLO holds as text and protobuf as messages (proto_notes.cc).
void MetadataToProto(const OpMetadata& m, bool tables, proto::OpMetadataProto* out);
OpMetadata MetadataFromProto(const proto::OpMetadataProto& in);
void AnnotationsToProto(const StringMap& annotations, proto::HloInstructionProto* out);
absl::StatusOr<StringMap> AnnotationsFromProto(const proto::HloInstructionProto& in, const Shape& shape);
// Convert the stack frame tables.
void StackFramesToProto(const std::string& text, proto::StackFrameIndexProto* out);
std::string StackFramesFromProto(const proto::StackFrameIndexProto& in);

void ShardingToProto(const Sharding& sharding, proto::OpShardingProto* out);
absl::StatusOr<Sharding> ShardingFromProto(const proto::OpShardingProto& in);

void FrontendAttributesToProto(const StringMap& map, proto::FrontendAttributesProto* out);
StringMap FrontendAttributesFromProto(const proto::FrontendAttributesProto& in);

template <typename Field, typename Values>
void SetRepeated(const Values& values, Field* out) {
  out->Clear();
  out->Reserve(static_cast<int>(values.size()));
  for (auto v : values) out->Add(v);
}
template <typename Field>
Ints ToInts(const Field& field) {
  return Ints(field.begin(), field.end());
}

// Reads a permutation. The identity, which the proto always contains, becomes an empty list, as in the text.
template <typename Field>
Ints Permutation(const Field& field) {
  Ints p = ToInts(field);
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] != static_cast<int64_t>(i)) return p;
  }
  return {};
}

// Convert the attributes of one instruction (proto_attributes.cc).
void AttributesToProto(const Instruction& instruction, proto::HloInstructionProto* out);
absl::StatusOr<Attributes> AttributesFromProto(Opcode opcode, const proto::HloInstructionProto& in,
                                               absl::Span<Instruction* const> operands);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_PROTO_PROTO_VALUES_H_
