#include "core/import/proto/proto_values.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/text/attribute_text.h"
#include "core/text/stack_frames.h"
#include "core/types/status_macros.h"

namespace backplane {

absl::Status InvalidProto(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("hlo proto: ", what));
}

namespace {

constexpr int kMaxRank = 1024;
constexpr int kMaxTupleDepth = 64;

absl::StatusOr<Layout> LayoutFromProto(const proto::LayoutProto& in) {
  for (int32_t type : in.dim_level_types()) {
    if (type != 0) return absl::UnimplementedError("hlo proto: sparse layout");
  }
  Layout layout;
  layout.minor_to_major.assign(in.minor_to_major().begin(), in.minor_to_major().end());
  for (const proto::TileProto& t : in.tiles()) {
    Tile tile;
    tile.dims.assign(t.dimensions().begin(), t.dimensions().end());
    std::replace(tile.dims.begin(), tile.dims.end(), int64_t{-1}, Tile::kCombine);  // as the tiling document has it
    layout.tiles.push_back(std::move(tile));
  }
  layout.element_size_in_bits = in.element_size_in_bits();
  layout.memory_space = in.memory_space();
  // Protos that do not set it hold 0.
  if (in.tail_padding_alignment_in_elements() != 0) layout.tail_alignment = in.tail_padding_alignment_in_elements();
  auto type = [](int32_t number) -> absl::StatusOr<PrimitiveType> {
    const PrimitiveType t = IsValidPrimitiveType(number) ? static_cast<PrimitiveType>(number) : PrimitiveType::kInvalid;
    if (number != 0 && !IsIntegral(t)) return InvalidProto(absl::StrCat("a layout's index type is ", number));
    return t;
  };
  ASSIGN_OR_RETURN(layout.index_type, type(in.index_primitive_type()));
  ASSIGN_OR_RETURN(layout.pointer_type, type(in.pointer_primitive_type()));
  for (const proto::SplitConfigProto& s : in.split_configs()) {
    layout.splits.push_back({s.dimension(), DimVector(s.split_indices().begin(), s.split_indices().end())});
  }
  layout.metadata_prefix_bytes = in.dynamic_shape_metadata_prefix_bytes();
  return layout;
}

void LayoutToProto(const Layout& layout, proto::LayoutProto* out) {
  SetRepeated(layout.minor_to_major, out->mutable_minor_to_major());
  for (const Tile& t : layout.tiles) SetRepeated(t.dims, out->add_tiles()->mutable_dimensions());
  out->set_element_size_in_bits(layout.element_size_in_bits);
  out->set_memory_space(layout.memory_space);
  out->set_tail_padding_alignment_in_elements(layout.tail_alignment);
  out->set_index_primitive_type(static_cast<int>(layout.index_type));
  out->set_pointer_primitive_type(static_cast<int>(layout.pointer_type));
  for (const LayoutSplit& s : layout.splits) {
    proto::SplitConfigProto* split = out->add_split_configs();
    split->set_dimension(s.dimension);
    SetRepeated(s.indices, split->mutable_split_indices());
  }
  out->set_dynamic_shape_metadata_prefix_bytes(layout.metadata_prefix_bytes);
}

absl::StatusOr<Shape> ReadShape(const proto::ShapeProto& in, int depth) {
  if (depth > kMaxTupleDepth) return InvalidProto("tuples nested too deep");
  if (!IsValidPrimitiveType(in.element_type()))
    return InvalidProto(absl::StrCat("unknown element type ", in.element_type()));
  const PrimitiveType type = static_cast<PrimitiveType>(in.element_type());
  if (type == PrimitiveType::kTuple) {
    std::vector<Shape> elements;
    for (const proto::ShapeProto& e : in.tuple_shapes()) {
      ASSIGN_OR_RETURN(Shape s, ReadShape(e, depth + 1));
      elements.push_back(std::move(s));
    }
    return Shape::Tuple(std::move(elements));
  }
  if (type == PrimitiveType::kToken) return Shape::Token();
  if (type == PrimitiveType::kOpaque) return Shape::Opaque();
  if (in.dimensions_size() > kMaxRank) return InvalidProto("too many dimensions");
  if (in.is_dynamic_dimension_size() > in.dimensions_size()) return InvalidProto("more dynamic flags than dimensions");
  Shape shape(type, absl::MakeConstSpan(in.dimensions().data(), static_cast<size_t>(in.dimensions_size())));
  for (int i = 0; i < in.is_dynamic_dimension_size(); ++i) {
    if (!in.is_dynamic_dimension(i)) continue;
    if (in.dimensions(i) < 0) return absl::UnimplementedError("hlo proto: unbounded dimension");
    shape.set_dynamic(i, true);
  }
  if (in.has_layout() && !in.layout_is_default()) {
    ASSIGN_OR_RETURN(Layout layout, LayoutFromProto(in.layout()));
    if (shape.rank() > 0 || !(layout == Layout())) shape.set_layout(std::move(layout));
  }
  RETURN_IF_ERROR(shape.Validate());
  return shape;
}

// ---- literals ----

// The bytes field of a type whose elements are stored as bytes; null for the others.
std::string* BytesField(PrimitiveType type, proto::LiteralProto* p) {
  switch (type) {
    case PrimitiveType::kS1:
      return p->mutable_s1s();
    case PrimitiveType::kS2:
      return p->mutable_s2s();
    case PrimitiveType::kS4:
      return p->mutable_s4s();
    case PrimitiveType::kS8:
      return p->mutable_s8s();
    case PrimitiveType::kS16:
      return p->mutable_s16s();
    case PrimitiveType::kU1:
      return p->mutable_u1s();
    case PrimitiveType::kU2:
      return p->mutable_u2s();
    case PrimitiveType::kU4:
      return p->mutable_u4s();
    case PrimitiveType::kU8:
      return p->mutable_u8s();
    case PrimitiveType::kU16:
      return p->mutable_u16s();
    case PrimitiveType::kF16:
      return p->mutable_f16s();
    case PrimitiveType::kBF16:
      return p->mutable_bf16s();
    case PrimitiveType::kF8E5M2:
      return p->mutable_f8e5m2s();
    case PrimitiveType::kF8E4M3FN:
      return p->mutable_f8e4m3fns();
    case PrimitiveType::kF8E4M3B11FNUZ:
      return p->mutable_f8e4m3b11fnuzs();
    case PrimitiveType::kF8E5M2FNUZ:
      return p->mutable_f8e5m2fnuzs();
    case PrimitiveType::kF8E4M3FNUZ:
      return p->mutable_f8e4m3fnuzs();
    case PrimitiveType::kF8E4M3:
      return p->mutable_f8e4m3s();
    case PrimitiveType::kF8E3M4:
      return p->mutable_f8e3m4s();
    case PrimitiveType::kF4E2M1FN:
      return p->mutable_f4e2m1fns();
    case PrimitiveType::kF8E8M0FNU:
      return p->mutable_f8e8m0fnus();
    case PrimitiveType::kF6E2M3FN:
    case PrimitiveType::kF6E3M2FN:
      return p->mutable_f6s();
    default:
      return nullptr;
  }
}

template <typename T, typename Field>
void CopyOut(const Literal& literal, int64_t parts, Field* field) {
  const T* data = reinterpret_cast<const T*>(literal.bytes());
  field->Clear();
  field->Reserve(static_cast<int>(literal.num_elements() * parts));
  for (int64_t i = 0; i < literal.num_elements() * parts; ++i) field->Add(data[i]);
}

template <typename T, typename Field>
absl::StatusOr<Literal> CopyIn(const Field& field, int64_t parts, const Shape& shape) {
  // Compared before anything is allocated; both sides are known to fit.
  if (field.size() % parts != 0 || shape.num_elements() != field.size() / parts) {
    return InvalidProto(absl::StrCat("literal of ", shape.ToString(), " with ", field.size() / parts, " elements"));
  }
  Literal literal(shape);
  T* data = reinterpret_cast<T*>(literal.mutable_bytes());
  for (int i = 0; i < field.size(); ++i) data[i] = static_cast<T>(field.Get(i));
  return literal;
}

absl::StatusOr<Literal> ArrayFromProto(const proto::LiteralProto& in, const Shape& shape) {
  const PrimitiveType type = shape.element_type();
  switch (type) {
    case PrimitiveType::kPred:
      return CopyIn<bool>(in.preds(), 1, shape);
    case PrimitiveType::kS32:
      return CopyIn<int32_t>(in.s32s(), 1, shape);
    case PrimitiveType::kS64:
      return CopyIn<int64_t>(in.s64s(), 1, shape);
    case PrimitiveType::kU32:
      return CopyIn<uint32_t>(in.u32s(), 1, shape);
    case PrimitiveType::kU64:
      return CopyIn<uint64_t>(in.u64s(), 1, shape);
    case PrimitiveType::kF32:
      return CopyIn<float>(in.f32s(), 1, shape);
    case PrimitiveType::kF64:
      return CopyIn<double>(in.f64s(), 1, shape);
    case PrimitiveType::kC64:
      return CopyIn<float>(in.c64s(), 2, shape);
    case PrimitiveType::kC128:
      return CopyIn<double>(in.c128s(), 2, shape);
    default:
      break;
  }
  // The message is only read: the accessor for writing serves both ways.
  const std::string* bytes = BytesField(type, const_cast<proto::LiteralProto*>(&in));
  if (bytes == nullptr) return InvalidProto(absl::StrCat("no literal of ", shape.ToString()));
  if (static_cast<int64_t>(bytes->size()) != shape.byte_size()) {
    return InvalidProto(absl::StrCat("literal of ", shape.ToString(), " with ", bytes->size(), " bytes"));
  }
  Literal literal(shape);
  if (bytes->empty()) return literal;
  std::memcpy(literal.mutable_bytes(), bytes->data(), bytes->size());
  if (IsSubByte(type)) {
    // The upper bits of a narrow element are not to be trusted.
    uint8_t* data = reinterpret_cast<uint8_t*>(literal.mutable_bytes());
    const int bits = BitWidth(type);
    for (size_t i = 0; i < bytes->size(); ++i) {
      const uint8_t low = static_cast<uint8_t>(data[i] << (8 - bits));
      data[i] = IsSigned(type) ? static_cast<uint8_t>(static_cast<int8_t>(low) >> (8 - bits))
                               : static_cast<uint8_t>(low >> (8 - bits));
    }
  }
  return literal;
}

// The message has its elements in the order of its shape's layout; those of a literal are row-major.
absl::StatusOr<Literal> InRowMajorOrder(Literal read, const proto::ShapeProto& written) {
  if (!written.has_layout() || written.layout_is_default() || read.shape().rank() < 2) return read;
  ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(written));  // checks that the order is a permutation
  if (!(shape == read.shape())) {
    return InvalidProto(absl::StrCat("literal of ", shape.ToString(), " in a constant of ", read.shape().ToString()));
  }
  if (shape.IsRowMajor()) return read;
  const auto& order = shape.layout().minor_to_major;
  Literal out(read.shape());
  if (read.num_elements() == 0) return out;
  const auto& dims = read.shape().dimensions();
  DimVector strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * dims[d + 1];
  const int64_t width = read.byte_size() / read.num_elements();
  DimVector index(dims.size(), 0);
  int64_t target = 0;
  for (int64_t k = 0; k < read.num_elements(); ++k) {
    std::memcpy(out.mutable_bytes() + target * width, read.bytes() + k * width, static_cast<size_t>(width));
    for (int64_t d : order) {  // the next element: the minor dimension first
      const size_t at = static_cast<size_t>(d);
      target += strides[at];
      if (++index[at] < dims[at]) break;
      target -= strides[at] * dims[at];
      index[at] = 0;
    }
  }
  return out;
}

std::string MetadataListText(const OpMetadata& m) {
  std::vector<std::string> fields;
  if (!m.op_type.empty()) fields.push_back(absl::StrCat("op_type=", FormatQuoted(m.op_type)));
  if (!m.op_name.empty()) fields.push_back(absl::StrCat("op_name=", FormatQuoted(m.op_name)));
  if (!m.source_file.empty()) fields.push_back(absl::StrCat("source_file=", FormatQuoted(m.source_file)));
  if (m.source_line != 0) fields.push_back(absl::StrCat("source_line=", m.source_line));
  if (!m.more.empty()) fields.push_back(m.more);
  if (m.stack_frame_id != 0) fields.push_back(absl::StrCat("stack_frame_id=", m.stack_frame_id));
  return absl::StrCat("{", absl::StrJoin(fields, " "), "}");
}

// {op_name="x"} for one, {{..}, {..}} for several, or always where axes are named.
std::string ShardingMetadata(const proto::RepeatedPtrField<proto::OpMetadataProto>& in, bool braces) {
  if (in.empty()) return "";
  std::vector<std::string> all;
  for (const auto& m : in) all.push_back(MetadataListText(MetadataFromProto(m)));
  return all.size() == 1 && !braces ? all[0] : absl::StrCat("{", absl::StrJoin(all, ", "), "}");
}

void ShardingMetadataToProto(const std::string& text, proto::RepeatedPtrField<proto::OpMetadataProto>* out) {
  if (text.empty()) return;
  HloLexer lexer(text);
  const StackFrames none;
  const bool list = lexer.Take("{") && lexer.Peek() == '{';
  if (!list) lexer.set_position(0);
  do {
    absl::StatusOr<OpMetadata> m = none.ParseMetadata(lexer);
    if (!m.ok()) return;
    MetadataToProto(*m, true, out->Add());
  } while (list && lexer.Take(","));
}

absl::StatusOr<Sharding> ReadNamedSharding(const proto::NamedShardingProto& in) {
  ASSIGN_OR_RETURN(Mesh mesh, MeshFromProto(in.mesh()));
  MeshShardingText text;
  static_cast<Mesh&>(text) = std::move(mesh);
  for (const auto& d : in.dimensions()) {
    MeshShardingText::Dimension dimension;
    ASSIGN_OR_RETURN(dimension.axes, AxesFromProto(d.axes(), text));
    dimension.open = !d.is_closed();
    text.dimensions.push_back(std::move(dimension));
  }
  ASSIGN_OR_RETURN(text.replicated, AxesFromProto(in.replicated(), text));
  ASSIGN_OR_RETURN(text.unreduced, AxesFromProto(in.unreduced(), text));
  ASSIGN_OR_RETURN(text.manual, AxesFromProto(in.manual(), text));
  const std::string metadata = ShardingMetadata(in.metadata(), true);
  return ParseSharding(
      absl::StrCat("{", text.ToString(), metadata.empty() ? "" : absl::StrCat(", metadata=", metadata), "}"));
}

absl::StatusOr<Sharding> ReadSharding(const proto::OpShardingProto& in, int depth) {
  if (depth > kMaxTupleDepth) return InvalidProto("sharding tuples nested too deep");
  if (in.has_named_sharding()) return ReadNamedSharding(in.named_sharding());
  auto valid = [](int t) { return t >= 0 && t <= static_cast<int>(Sharding::Type::kUnreduced); };
  if (!valid(in.type())) return InvalidProto(absl::StrCat("unknown sharding type ", in.type()));
  Sharding s;
  s.type = static_cast<Sharding::Type>(in.type());
  if (in.is_shard_group()) {
    if (in.shard_group_type() != 0 && in.shard_group_type() != 1) {
      return InvalidProto(absl::StrCat("unknown shard group type ", in.shard_group_type()));
    }
    s.group = in.shard_group_type() == 1 ? Sharding::Group::kLike : Sharding::Group::kAs;
    s.group_id = in.shard_group_id();
  }
  s.metadata = ShardingMetadata(in.metadata(), false);
  if (s.type == Sharding::Type::kTuple) {
    for (const auto& t : in.tuple_shardings()) {
      ASSIGN_OR_RETURN(Sharding element, ReadSharding(t, depth + 1));
      s.tuple.push_back(std::move(element));
    }
    return s;
  }
  if (s.type == Sharding::Type::kMaximal) {
    if (in.tile_assignment_devices_size() != 1) return InvalidProto("maximal sharding without its device");
    s.devices = {in.tile_assignment_devices(0)};
    return s;
  }
  if (s.type != Sharding::Type::kOther) return s;
  s.tile_dims = ToInts(in.tile_assignment_dimensions());
  s.replicate_on_last_tile_dim = in.replicate_on_last_tile_dim();
  for (int t : in.last_tile_dims()) {
    if (!valid(t)) return InvalidProto(absl::StrCat("unknown subgroup type ", t));
    s.last_tile_dims.push_back(static_cast<Sharding::Type>(t));
  }
  if (in.iota_reshape_dims_size() > 0) {
    IotaDevices iota;
    iota.dims = s.tile_dims;
    iota.reshape_dims = ToInts(in.iota_reshape_dims());
    iota.transpose_perm = Permutation(in.iota_transpose_perm());
    s.iota = std::move(iota);
  } else {
    s.devices = ToInts(in.tile_assignment_devices());
  }
  // The text is complete; parsing it again checks sizes and devices.
  absl::StatusOr<Sharding> checked = ParseSharding(s.ToString());
  if (!checked.ok()) return checked.status();
  return s;
}

}  // namespace

void ShapeToProto(const Shape& shape, proto::ShapeProto* out) {
  out->set_element_type(static_cast<int>(shape.element_type()));
  if (shape.IsTuple()) {
    for (const Shape& s : shape.tuple_shapes()) ShapeToProto(s, out->add_tuple_shapes());
    return;
  }
  SetRepeated(shape.dimensions(), out->mutable_dimensions());
  for (int64_t i = 0; i < shape.rank(); ++i) out->add_is_dynamic_dimension(shape.is_dynamic(i));
  if (!shape.IsArray()) return;
  LayoutToProto(shape.has_layout() ? shape.layout() : Layout::RowMajor(shape.rank()), out->mutable_layout());
  out->set_layout_is_default(!shape.has_layout() && shape.rank() > 0);
}

absl::StatusOr<Shape> ShapeFromProto(const proto::ShapeProto& in) { return ReadShape(in, 0); }

void ProgramShapeToProto(const ProgramShape& program, proto::ProgramShapeProto* out) {
  for (const Shape& s : program.parameters) ShapeToProto(s, out->add_parameters());
  ShapeToProto(program.result, out->mutable_result());
  for (const std::string& name : program.parameter_names) out->add_parameter_names(name);
}

void LiteralToProto(const Literal& literal, proto::LiteralProto* out) {
  ShapeToProto(literal.shape().WithoutLayout(), out->mutable_shape());  // its elements are row-major
  for (const Literal& e : literal.elements()) LiteralToProto(e, out->add_tuple_literals());
  if (!literal.shape().IsArray()) return;
  const PrimitiveType type = literal.shape().element_type();
  switch (type) {
    case PrimitiveType::kPred:
      return CopyOut<bool>(literal, 1, out->mutable_preds());
    case PrimitiveType::kS32:
      return CopyOut<int32_t>(literal, 1, out->mutable_s32s());
    case PrimitiveType::kS64:
      return CopyOut<int64_t>(literal, 1, out->mutable_s64s());
    case PrimitiveType::kU32:
      return CopyOut<uint32_t>(literal, 1, out->mutable_u32s());
    case PrimitiveType::kU64:
      return CopyOut<uint64_t>(literal, 1, out->mutable_u64s());
    case PrimitiveType::kF32:
      return CopyOut<float>(literal, 1, out->mutable_f32s());
    case PrimitiveType::kF64:
      return CopyOut<double>(literal, 1, out->mutable_f64s());
    case PrimitiveType::kC64:
      return CopyOut<float>(literal, 2, out->mutable_c64s());
    case PrimitiveType::kC128:
      return CopyOut<double>(literal, 2, out->mutable_c128s());
    default:
      break;
  }
  std::string* bytes = BytesField(type, out);
  bytes->assign(reinterpret_cast<const char*>(literal.bytes()), static_cast<size_t>(literal.byte_size()));
  if (IsSubByte(type)) {
    for (char& c : *bytes) c = static_cast<char>(c & ((1 << BitWidth(type)) - 1));
  }
}

absl::StatusOr<Literal> LiteralFromProto(const proto::LiteralProto& in, const Shape& shape) {
  if (!shape.IsTuple()) {
    ASSIGN_OR_RETURN(Literal literal, ArrayFromProto(in, shape.WithoutLayout()));
    return InRowMajorOrder(std::move(literal), in.shape());
  }
  if (in.tuple_literals_size() != shape.tuple_size()) {
    return InvalidProto(absl::StrCat("literal of ", shape.ToString(), " with ", in.tuple_literals_size(), " elements"));
  }
  std::vector<Literal> elements;
  for (int i = 0; i < in.tuple_literals_size(); ++i) {
    ASSIGN_OR_RETURN(Literal element, LiteralFromProto(in.tuple_literals(i), shape.tuple_shapes(i)));
    elements.push_back(std::move(element));
  }
  return Literal::Tuple(std::move(elements));
}

void MeshToProto(const Mesh& mesh, proto::MeshProto* out) {
  for (size_t i = 0; i < mesh.names.size(); ++i) {
    auto* axis = out->add_axes();
    axis->set_name(mesh.names[i]);
    axis->set_size(mesh.sizes[i]);
  }
  if (!mesh.iota) return SetRepeated(mesh.devices, out->mutable_device_ids());
  SetRepeated(mesh.iota->reshape_dims, out->mutable_iota()->mutable_reshape_dims());
  SetRepeated(mesh.iota->transpose_perm, out->mutable_iota()->mutable_transpose_perm());
  for (size_t i = 0; mesh.iota->transpose_perm.empty() && i < mesh.iota->reshape_dims.size(); ++i) {
    out->mutable_iota()->add_transpose_perm(static_cast<int64_t>(i));
  }
}

absl::StatusOr<Mesh> MeshFromProto(const proto::MeshProto& in) {
  Mesh mesh;
  for (const auto& axis : in.axes()) {
    HloLexer name(axis.name());
    if (axis.name().empty() || name.Run("_.-").size() != axis.name().size())
      return InvalidProto("bad name of a mesh axis");
    mesh.names.push_back(axis.name());
    mesh.sizes.push_back(axis.size());
  }
  mesh.devices = ToInts(in.device_ids());
  if (in.has_iota()) {
    IotaDevices iota{ToInts(in.iota().reshape_dims()), ToInts(in.iota().reshape_dims()),
                     Permutation(in.iota().transpose_perm())};
    if (!iota.Valid() || !FitsMesh(iota)) return InvalidProto("mesh that names no list of devices, or too long a one");
    mesh.devices = iota.Expand();
    mesh.iota = std::move(iota);
  }
  return mesh;
}

void AxesToProto(const std::vector<MeshAxis>& axes, proto::RepeatedPtrField<proto::AxisRefProto>* out) {
  for (const MeshAxis& a : axes) {
    auto* p = out->Add();
    p->set_mesh_axis_index(a.axis);
    if (a.size == 0) continue;
    p->mutable_part()->set_pre_size(a.pre_size);
    p->mutable_part()->set_size(a.size);
  }
}

absl::StatusOr<std::vector<MeshAxis>> AxesFromProto(const proto::RepeatedPtrField<proto::AxisRefProto>& in,
                                                    const Mesh& mesh) {
  std::vector<MeshAxis> axes;
  for (const auto& a : in) {
    MeshAxis axis{a.mesh_axis_index()};
    if (axis.axis < 0 || axis.axis >= static_cast<int64_t>(mesh.names.size())) return InvalidProto("no such mesh axis");
    if (a.has_part()) {
      axis.pre_size = a.part().pre_size();
      axis.size = a.part().size();
      if (axis.pre_size < 1 || axis.size < 1 || axis.pre_size > INT32_MAX || axis.size > INT32_MAX) {
        return InvalidProto("bad part of a mesh axis");
      }
    }
    axes.push_back(axis);
  }
  return axes;
}

void ShardingToProto(const Sharding& s, proto::OpShardingProto* out) {
  if (!s.mesh.empty()) {
    if (absl::StatusOr<MeshShardingText> text = ParseMeshSharding(s.mesh); text.ok()) {
      proto::NamedShardingProto* named = out->mutable_named_sharding();
      MeshToProto(*text, named->mutable_mesh());
      for (const auto& d : text->dimensions) {
        auto* p = named->add_dimensions();
        AxesToProto(d.axes, p->mutable_axes());
        p->set_is_closed(!d.open);
      }
      AxesToProto(text->replicated, named->mutable_replicated());
      AxesToProto(text->unreduced, named->mutable_unreduced());
      AxesToProto(text->manual, named->mutable_manual());
      ShardingMetadataToProto(s.metadata, named->mutable_metadata());
      return;
    }
  }
  if (s.group != Sharding::Group::kNone) {
    out->set_is_shard_group(true);
    out->set_shard_group_id(s.group_id);
    out->set_shard_group_type(s.group == Sharding::Group::kLike ? 1 : 0);
  }
  ShardingMetadataToProto(s.metadata, out->mutable_metadata());
  out->set_type(static_cast<int>(s.type));
  for (const Sharding& t : s.tuple) ShardingToProto(t, out->add_tuple_shardings());
  if (s.type == Sharding::Type::kMaximal) {
    out->add_tile_assignment_dimensions(1);
    SetRepeated(s.devices, out->mutable_tile_assignment_devices());
  }
  if (s.type != Sharding::Type::kOther) return;
  SetRepeated(s.tile_dims, out->mutable_tile_assignment_dimensions());
  out->set_replicate_on_last_tile_dim(s.replicate_on_last_tile_dim);
  for (Sharding::Type t : s.last_tile_dims) out->add_last_tile_dims(static_cast<int>(t));
  if (!s.iota) {
    SetRepeated(s.devices, out->mutable_tile_assignment_devices());
    return;
  }
  SetRepeated(s.iota->reshape_dims, out->mutable_iota_reshape_dims());
  SetRepeated(s.iota->transpose_perm, out->mutable_iota_transpose_perm());
  if (s.iota->transpose_perm.empty()) {  // readers want a permutation
    for (size_t i = 0; i < s.iota->reshape_dims.size(); ++i) out->add_iota_transpose_perm(static_cast<int>(i));
  }
}

absl::StatusOr<Sharding> ShardingFromProto(const proto::OpShardingProto& in) { return ReadSharding(in, 0); }

void FrontendAttributesToProto(const StringMap& map, proto::FrontendAttributesProto* out) {
  for (const auto& [key, value] : map) {
    auto* entry = out->add_map();
    entry->set_key(key);
    entry->set_value(value);
  }
}

StringMap FrontendAttributesFromProto(const proto::FrontendAttributesProto& in) {
  StringMap map;
  for (const auto& entry : in.map()) map[entry.key()] = entry.value();
  return map;
}

}  // namespace backplane
