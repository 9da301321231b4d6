// Attributes between the IR and HloInstructionProto: one case for each attribute, both ways side by side in two
// switches.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/import/proto/proto_values.h"
#include "core/text/attribute_text.h"
#include "core/text/hlo_lexer.h"
#include "core/text/mesh_groups.h"
#include "core/text/text_names.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Algorithms by their number in PrecisionConfig.
constexpr absl::string_view kAlgorithms[] = {"unset",
                                             "dot_any_f8_any_f8_f32",
                                             "dot_any_f8_any_f8_f32_fast_accum",
                                             "dot_f16_f16_f16",
                                             "dot_f16_f16_f32",
                                             "dot_bf16_bf16_bf16",
                                             "dot_bf16_bf16_f32",
                                             "dot_bf16_bf16_f32_x3",
                                             "dot_bf16_bf16_f32_x6",
                                             "dot_tf32_tf32_f32",
                                             "dot_tf32_tf32_f32_x3",
                                             "dot_f32_f32_f32",
                                             "dot_f64_f64_f64",
                                             "dot_bf16_bf16_f32_x9"};

void DotToProto(const DotDimensions& d, proto::DotDimensionsProto* out) {
  SetRepeated(d.lhs_batch, out->mutable_lhs_batch());
  SetRepeated(d.rhs_batch, out->mutable_rhs_batch());
  SetRepeated(d.lhs_contracting, out->mutable_lhs_contracting());
  SetRepeated(d.rhs_contracting, out->mutable_rhs_contracting());
}
DotDimensions DotFromProto(const proto::DotDimensionsProto& in) {
  return {ToInts(in.lhs_batch()), ToInts(in.rhs_batch()), ToInts(in.lhs_contracting()), ToInts(in.rhs_contracting())};
}

void GroupsToProto(const ReplicaGroups& g, proto::HloInstructionProto* out) {
  if (!g.mesh.empty()) {
    HloLexer lexer(g.mesh);
    lexer.TakeWord("mesh");
    if (absl::StatusOr<MeshGroups> mesh = ParseMesh(lexer); mesh.ok()) {
      MeshToProto(*mesh, out->mutable_mesh_replica_groups()->mutable_mesh());
      AxesToProto(mesh->axes, out->mutable_mesh_replica_groups()->mutable_axes());
      return;
    }
  }
  if (!g.iota) {
    for (const Ints& group : g.groups)
      SetRepeated(group, out->mutable_collective_device_list()->add_replica_groups()->mutable_replica_ids());
    return;
  }
  auto* iota = out->mutable_iota_replica_groups();
  iota->set_num_replica_groups(g.iota->dims[0]);
  iota->set_num_devices_per_group(g.iota->dims[1]);
  SetRepeated(g.iota->reshape_dims, iota->mutable_iota_reshape_dims());
  SetRepeated(g.iota->transpose_perm, iota->mutable_iota_transpose_perm());
  for (size_t i = 0; g.iota->transpose_perm.empty() && i < g.iota->reshape_dims.size(); ++i) {
    iota->add_iota_transpose_perm(static_cast<int>(i));
  }
}

absl::StatusOr<ReplicaGroups> GroupsFromProto(const proto::HloInstructionProto& in) {
  ReplicaGroups g;
  const bool nested_iota = in.has_collective_device_list() && in.collective_device_list().has_iota();
  if (in.has_iota_replica_groups() || nested_iota) {
    const proto::IotaReplicaGroupsProto& p =
        in.has_iota_replica_groups() ? in.iota_replica_groups() : in.collective_device_list().iota();
    IotaDevices iota;
    iota.dims = {p.num_replica_groups(), p.num_devices_per_group()};
    iota.reshape_dims = ToInts(p.iota_reshape_dims());
    iota.transpose_perm = Permutation(p.iota_transpose_perm());
    if (!iota.Valid()) return InvalidProto("replica groups that name no list of devices");
    g.iota = std::move(iota);
    return g;
  }
  if (in.has_mesh_replica_groups()) {
    MeshGroups mesh;
    ASSIGN_OR_RETURN(static_cast<Mesh&>(mesh), MeshFromProto(in.mesh_replica_groups().mesh()));
    ASSIGN_OR_RETURN(mesh.axes, AxesFromProto(in.mesh_replica_groups().axes(), mesh));
    return mesh.ComputeGroups();
  }
  const auto& groups = in.has_collective_device_list() && in.collective_device_list().replica_groups_size() > 0
                           ? in.collective_device_list().replica_groups()
                           : in.replica_groups();
  for (const auto& group : groups) g.groups.push_back(ToInts(group.replica_ids()));
  return g;
}

// domain={kind="sharding", entry={..}, exit={..}}, the only kind there is. The message swaps the names: the
// operand's sharding is the exit in the text and the entry in the message.
void DomainToProto(const std::string& text, proto::HloInstructionProto* out) {
  HloLexer lexer(text);
  if (!lexer.Take("{")) return;
  do {
    const absl::string_view key = lexer.Name();
    lexer.Take("=");
    absl::StatusOr<std::string> value = ParseRawOrQuoted(lexer);
    if (!value.ok()) return;
    absl::StatusOr<Sharding> sharding = ParseSharding(*value);
    if (key == "entry" && sharding.ok()) ShardingToProto(*sharding, out->mutable_domain_exit_sharding());
    if (key == "exit" && sharding.ok()) ShardingToProto(*sharding, out->mutable_domain_entry_sharding());
  } while (lexer.Take(","));
}
absl::StatusOr<std::string> DomainFromProto(const proto::HloInstructionProto& in) {
  ASSIGN_OR_RETURN(Sharding entry, ShardingFromProto(in.domain_exit_sharding()));
  ASSIGN_OR_RETURN(Sharding exit, ShardingFromProto(in.domain_entry_sharding()));
  return absl::StrCat("{kind=\"sharding\", entry=", entry.ToString(), ", exit=", exit.ToString(), "}");
}

void WindowToProto(const Window& window, proto::WindowProto* out) {
  for (const WindowDimension& d : window.dimensions) {
    auto* p = out->add_dimensions();
    p->set_size(d.size);
    p->set_stride(d.stride);
    p->set_padding_low(d.padding_low);
    p->set_padding_high(d.padding_high);
    p->set_window_dilation(d.window_dilation);
    p->set_base_dilation(d.base_dilation);
    p->set_window_reversal(d.window_reversal);
  }
}
Window WindowFromProto(const proto::WindowProto& in) {
  Window w;
  for (const auto& p : in.dimensions()) {
    w.dimensions.push_back({p.size(), p.stride(), p.padding_low(), p.padding_high(), p.window_dilation(),
                            p.base_dilation(), p.window_reversal()});
  }
  return w;
}

void ConvolutionToProto(const ConvolutionDimensions& d, proto::ConvolutionDimensionsProto* out) {
  out->set_input_batch(d.input_batch);
  out->set_input_feature(d.input_feature);
  SetRepeated(d.input_spatial, out->mutable_input_spatial());
  out->set_kernel_input_feature(d.kernel_input_feature);
  out->set_kernel_output_feature(d.kernel_output_feature);
  SetRepeated(d.kernel_spatial, out->mutable_kernel_spatial());
  out->set_output_batch(d.output_batch);
  out->set_output_feature(d.output_feature);
  SetRepeated(d.output_spatial, out->mutable_output_spatial());
}
ConvolutionDimensions ConvolutionFromProto(const proto::ConvolutionDimensionsProto& p) {
  return {p.input_batch(),          p.input_feature(),         ToInts(p.input_spatial()),
          p.kernel_input_feature(), p.kernel_output_feature(), ToInts(p.kernel_spatial()),
          p.output_batch(),         p.output_feature(),        ToInts(p.output_spatial())};
}

void GatherToProto(const GatherDimensions& d, proto::GatherDimensionsProto* out) {
  SetRepeated(d.offset_dims, out->mutable_offset_dims());
  SetRepeated(d.collapsed_slice_dims, out->mutable_collapsed_slice_dims());
  SetRepeated(d.start_index_map, out->mutable_start_index_map());
  SetRepeated(d.operand_batching_dims, out->mutable_operand_batching_dims());
  SetRepeated(d.start_indices_batching_dims, out->mutable_start_indices_batching_dims());
  out->set_index_vector_dim(d.index_vector_dim);
}
GatherDimensions GatherFromProto(const proto::GatherDimensionsProto& p) {
  return {ToInts(p.offset_dims()),           ToInts(p.collapsed_slice_dims()),        ToInts(p.start_index_map()),
          ToInts(p.operand_batching_dims()), ToInts(p.start_indices_batching_dims()), p.index_vector_dim()};
}
void ScatterToProto(const ScatterDimensions& d, proto::ScatterDimensionsProto* out) {
  SetRepeated(d.update_window_dims, out->mutable_update_window_dims());
  SetRepeated(d.inserted_window_dims, out->mutable_inserted_window_dims());
  SetRepeated(d.scatter_dims_to_operand_dims, out->mutable_scatter_dims_to_operand_dims());
  SetRepeated(d.input_batching_dims, out->mutable_input_batching_dims());
  SetRepeated(d.scatter_indices_batching_dims, out->mutable_scatter_indices_batching_dims());
  out->set_index_vector_dim(d.index_vector_dim);
}
ScatterDimensions ScatterFromProto(const proto::ScatterDimensionsProto& p) {
  return {ToInts(p.update_window_dims()),
          ToInts(p.inserted_window_dims()),
          ToInts(p.scatter_dims_to_operand_dims()),
          ToInts(p.input_batching_dims()),
          ToInts(p.scatter_indices_batching_dims()),
          p.index_vector_dim()};
}

void WriteAttribute(Opcode opcode, AttrId id, const AttrValue& v, proto::HloInstructionProto* out) {
  auto ints = [&]() -> const Ints& { return ValueAs<Ints>(v); };
  auto number = [&] { return ValueAs<int64_t>(v); };
  auto small = [&] { return static_cast<int32_t>(ValueAs<int64_t>(v)); };
  auto flag = [&] { return ValueAs<bool>(v); };
  auto text = [&]() -> const std::string& { return ValueAs<std::string>(v); };
  auto value = [&] { return ValueAs<EnumValue>(v).value; };
  switch (id) {
    case AttrId::kDimensions:
      return SetRepeated(ints(), out->mutable_dimensions());
    case AttrId::kIotaDimension:
    case AttrId::kDimension:
      return (void)out->add_dimensions(number());
    case AttrId::kParameterNumber:
      return out->set_parameter_number(number());
    case AttrId::kTupleIndex:
      return out->set_tuple_index(number());
    case AttrId::kDirection:
      return out->set_comparison_direction(std::string(FormatEnum(GetKind(id), value())));
    case AttrId::kComparisonType:
      return out->set_comparison_type(std::string(FormatEnum(GetKind(id), value())));
    case AttrId::kSlices:
      for (const SliceDimension& d : ValueAs<SliceConfig>(v)) {
        auto* p = out->add_slice_dimensions();
        p->set_start(d.start);
        p->set_limit(d.limit);
        p->set_stride(d.stride);
      }
      return;
    case AttrId::kDynamicSliceSizes:
      return SetRepeated(ints(), out->mutable_dynamic_slice_sizes());
    case AttrId::kSliceSizes:
      return SetRepeated(ints(), out->mutable_gather_slice_sizes());
    case AttrId::kPadding:
      for (const PaddingDimension& d : ValueAs<PaddingConfig>(v)) {
        auto* p = out->mutable_padding_config()->add_dimensions();
        p->set_low(d.low);
        p->set_high(d.high);
        p->set_interior(d.interior);
      }
      return;
    case AttrId::kWindow:
      return WindowToProto(ValueAs<Window>(v), out->mutable_window());
    case AttrId::kConvolutionDims:
      return ConvolutionToProto(ValueAs<ConvolutionDimensions>(v), out->mutable_convolution_dimensions());
    case AttrId::kFeatureGroupCount:
      return out->set_feature_group_count(number());
    case AttrId::kBatchGroupCount:
      return out->set_batch_group_count(number());
    case AttrId::kOperandPrecision:
      for (Precision p : ValueAs<Precisions>(v))
        out->mutable_precision_config()->add_operand_precision(static_cast<int>(p));
      return;
    case AttrId::kDotDims:
      return DotToProto(ValueAs<DotDimensions>(v), out->mutable_dot_dimensions());
    case AttrId::kRaggedDotDims: {
      const RaggedDotDimensions& d = ValueAs<RaggedDotDimensions>(v);
      DotToProto(d.dot, out->mutable_ragged_dot_dimensions()->mutable_dot());
      SetRepeated(d.lhs_ragged, out->mutable_ragged_dot_dimensions()->mutable_lhs_ragged());
      SetRepeated(d.rhs_group, out->mutable_ragged_dot_dimensions()->mutable_rhs_group());
      return;
    }
    case AttrId::kDotAlgorithm: {
      const std::string name = FormatDotAlgorithm(ValueAs<DotAlgorithm>(v));
      const auto* it = std::find(std::begin(kAlgorithms), std::end(kAlgorithms), name);
      return out->mutable_precision_config()->set_algorithm(static_cast<int>(it - std::begin(kAlgorithms)));
    }
    case AttrId::kGatherDims:
      return GatherToProto(ValueAs<GatherDimensions>(v), out->mutable_gather_dimensions());
    case AttrId::kScatterDims:
      return ScatterToProto(ValueAs<ScatterDimensions>(v), out->mutable_scatter_dimensions());
    case AttrId::kIndicesAreSorted:
      return out->set_indices_are_sorted(flag());
    case AttrId::kUniqueIndices:
      return out->set_unique_indices(flag());
    case AttrId::kIsStable:
      return out->set_is_stable(flag());
    case AttrId::kFftType:
      return out->set_fft_type(value());
    case AttrId::kFftLength:
      return SetRepeated(ints(), out->mutable_fft_length());
    case AttrId::kLower:
      if (opcode == Opcode::kCholesky)
        out->mutable_cholesky_options()->set_lower(flag());
      else
        out->mutable_triangular_solve_options()->set_lower(flag());
      return;
    case AttrId::kLeftSide:
      return out->mutable_triangular_solve_options()->set_left_side(flag());
    case AttrId::kUnitDiagonal:
      return out->mutable_triangular_solve_options()->set_unit_diagonal(flag());
    case AttrId::kTransposeA:
      return out->mutable_triangular_solve_options()->set_transpose_a(value());
    case AttrId::kEpsilon:
      return out->set_epsilon(static_cast<float>(ValueAs<double>(v)));
    case AttrId::kFeatureIndex:
      return out->set_feature_index(number());
    case AttrId::kExponentBits:
      return out->set_exponent_bits(small());
    case AttrId::kMantissaBits:
      return out->set_mantissa_bits(small());
    case AttrId::kRandomDistribution:
      return out->set_distribution(value());
    case AttrId::kRandomAlgorithm:
      return out->set_rng_algorithm(value());
    case AttrId::kDelta:
      return out->set_delta(number());
    case AttrId::kReplicaGroups:
      return GroupsToProto(ValueAs<ReplicaGroups>(v), out);
    case AttrId::kChannelId:
      return out->set_channel_id(number());
    case AttrId::kUseGlobalDeviceIds:
      return out->set_use_global_device_ids(flag());
    case AttrId::kConstrainLayout:
      return out->set_constrain_layout(flag());
    case AttrId::kSourceTargetPairs:
      for (const auto& [source, target] : ValueAs<Pairs>(v)) {
        auto* p = out->add_source_target_pairs();
        p->set_source(source);
        p->set_target(target);
      }
      return;
    case AttrId::kIsHostTransfer:
      return out->set_is_host_transfer(flag());
    case AttrId::kInfeedConfig:
      return out->set_infeed_config(text());
    case AttrId::kOutfeedConfig:
      return out->set_outfeed_config(text());
    case AttrId::kOutfeedShape:
      for (const Shape& s : ValueAs<std::vector<Shape>>(v)) ShapeToProto(s, out->mutable_outfeed_shape());
      return;
    case AttrId::kCustomCallTarget:
      return out->set_custom_call_target(text());
    case AttrId::kOpaque:
      return out->set_backend_config(text());
    case AttrId::kFfiAttributes:
      return out->set_backend_config(ToString(ValueAs<FfiDictionary>(v)));
    case AttrId::kOperandLayouts:
      out->set_constrain_layout(true);
      for (const Shape& s : ValueAs<std::vector<Shape>>(v)) ShapeToProto(s, out->add_operand_shapes_with_layout());
      return;
    case AttrId::kHasSideEffect:
      return out->set_custom_call_has_side_effect(flag());
    case AttrId::kApiVersion:
      return out->set_custom_call_api_version(value());
    case AttrId::kSchedule:
      return out->set_custom_call_schedule(value());
    case AttrId::kOutputOperandAliases:
      for (const OutputOperandAlias& a : ValueAs<OutputOperandAliases>(v)) {
        auto* p = out->add_output_operand_aliasing();
        SetRepeated(a.output_index, p->mutable_output_index());
        p->set_operand(a.operand);
        SetRepeated(a.operand_index, p->mutable_operand_index());
      }
      return;
    case AttrId::kFusionKind:
      return out->set_fusion_kind(std::string(FormatEnum(GetKind(id), value())));
    case AttrId::kIsComposite:
      return out->set_is_composite(flag());
    case AttrId::kK:
      return out->set_k(number());
    case AttrId::kLargest:
      return out->set_largest(flag());
    case AttrId::kIsReverse:
      return out->set_is_reverse(flag());
    case AttrId::kIsAssociative:
      return out->set_is_associative(flag());
    case AttrId::kInplace:
      return out->set_inplace(flag());
    case AttrId::kNumCarries:
      return out->set_num_carries(number());
    case AttrId::kIsCrossProgramPrefetch:
      return out->set_cross_program_prefetch_index(small());
    case AttrId::kAsyncExecutionThread:
      return out->set_async_execution_thread(text());
    case AttrId::kDomain:
      return DomainToProto(text(), out);
    case AttrId::kCompositeName:
    case AttrId::kCompositeAttributes:
    case AttrId::kCompositeVersion:  // frontend attributes
    case AttrId::kIsPipelined:
    case AttrId::kSplitDimension:
    case AttrId::kBlockSize:
    case AttrId::kResultType:
      return;
  }
}

using Maybe = absl::StatusOr<std::optional<AttrValue>>;

// The attribute's value; nullopt when its field equals what an absent field means, unless `forced`.
Maybe ReadAttribute(Opcode opcode, AttrId id, const proto::HloInstructionProto& in, bool forced) {
  auto if_true = [&](bool b) -> Maybe { return b || forced ? Maybe(AttrValue(b)) : Maybe(std::nullopt); };
  auto unless = [&](int64_t absent, int64_t n) -> Maybe {
    return n != absent || forced ? Maybe(AttrValue(n)) : Maybe(std::nullopt);
  };
  auto list = [&](Ints v, bool always) -> Maybe {
    return always || forced || !v.empty() ? Maybe(AttrValue(std::move(v))) : Maybe(std::nullopt);
  };
  auto text = [&](const std::string& s) -> Maybe {
    return forced || !s.empty() ? Maybe(AttrValue(s)) : Maybe(std::nullopt);
  };
  auto number = [&](int64_t n) -> Maybe { return Maybe(AttrValue(n)); };
  auto named = [&](const std::string& s) -> Maybe {
    if (s.empty()) return Maybe(std::nullopt);
    const std::optional<int> value = ParseEnum(GetKind(id), s);
    if (!value) return InvalidProto(absl::StrCat("unknown ", AttrName(id), " '", s.substr(0, 40), "'"));
    return Maybe(AttrValue(EnumValue{*value}));
  };
  auto enumerated = [&](int n, bool always) -> Maybe {
    if (!always && !forced && n == 0) return Maybe(std::nullopt);
    if (FormatEnum(GetKind(id), n).empty()) return InvalidProto(absl::StrCat("unknown ", AttrName(id), " ", n));
    return Maybe(AttrValue(EnumValue{n}));
  };
  const bool custom = opcode == Opcode::kCustomCall;
  const bool typed = in.custom_call_api_version() == static_cast<int>(CustomCallApiVersion::kTypedFfi);
  switch (id) {
    case AttrId::kDimensions:
      return list(ToInts(in.dimensions()), opcode != Opcode::kAllToAll);
    case AttrId::kIotaDimension:
    case AttrId::kDimension:
      if (in.dimensions_size() != 1)
        return InvalidProto(absl::StrCat(OpName(opcode), " with ", in.dimensions_size(), " dimensions, not 1"));
      return number(in.dimensions(0));
    case AttrId::kParameterNumber:
      return number(in.parameter_number());
    case AttrId::kTupleIndex:
      return number(in.tuple_index());
    case AttrId::kDirection:
      return named(in.comparison_direction());
    case AttrId::kComparisonType:
      return named(in.comparison_type());
    case AttrId::kSlices: {
      SliceConfig slices;
      for (const auto& p : in.slice_dimensions()) slices.push_back({p.start(), p.limit(), p.stride()});
      return Maybe(AttrValue(std::move(slices)));
    }
    case AttrId::kDynamicSliceSizes:
      return list(ToInts(in.dynamic_slice_sizes()), true);
    case AttrId::kSliceSizes:
      return list(ToInts(in.gather_slice_sizes()), true);
    case AttrId::kPadding: {
      PaddingConfig config;
      for (const auto& p : in.padding_config().dimensions()) config.push_back({p.low(), p.high(), p.interior()});
      return Maybe(AttrValue(std::move(config)));
    }
    case AttrId::kWindow:
      if (in.window().dimensions_size() == 0 && !forced) return Maybe(std::nullopt);
      return Maybe(AttrValue(WindowFromProto(in.window())));
    case AttrId::kConvolutionDims:
      if (opcode == Opcode::kCustomCall && !in.has_convolution_dimensions()) return Maybe(std::nullopt);
      return Maybe(AttrValue(ConvolutionFromProto(in.convolution_dimensions())));
    case AttrId::kFeatureGroupCount:
      return unless(1, in.feature_group_count() == 0 ? 1 : in.feature_group_count());
    case AttrId::kBatchGroupCount:
      return unless(1, in.batch_group_count() == 0 ? 1 : in.batch_group_count());
    case AttrId::kOperandPrecision: {
      Precisions precisions;
      bool all_default = true;
      for (int p : in.precision_config().operand_precision()) {
        if (p < 0 || p > static_cast<int>(Precision::kPackedNibble))
          return InvalidProto(absl::StrCat("unknown precision ", p));
        precisions.push_back(static_cast<Precision>(p));
        all_default = all_default && p == 0;
      }
      if (all_default && !forced) return Maybe(std::nullopt);
      return Maybe(AttrValue(std::move(precisions)));
    }
    case AttrId::kDotDims:
      return Maybe(AttrValue(DotFromProto(in.dot_dimensions())));
    case AttrId::kRaggedDotDims: {
      const auto& p = in.ragged_dot_dimensions();
      return Maybe(
          AttrValue(RaggedDotDimensions{DotFromProto(p.dot()), ToInts(p.lhs_ragged()), ToInts(p.rhs_group())}));
    }
    case AttrId::kDotAlgorithm: {
      const int n = in.precision_config().algorithm();
      if (n == 0 && !forced) return Maybe(std::nullopt);
      if (n < 0 || n >= static_cast<int>(std::size(kAlgorithms)))
        return absl::UnimplementedError(absl::StrCat("hlo proto: dot algorithm ", n));
      ASSIGN_OR_RETURN(DotAlgorithm a, ParseDotAlgorithm(kAlgorithms[n]));
      return Maybe(AttrValue(a));
    }
    case AttrId::kGatherDims:
      return Maybe(AttrValue(GatherFromProto(in.gather_dimensions())));
    case AttrId::kScatterDims:
      return Maybe(AttrValue(ScatterFromProto(in.scatter_dimensions())));
    case AttrId::kIndicesAreSorted:
      return if_true(in.indices_are_sorted());
    case AttrId::kUniqueIndices:
      return if_true(in.unique_indices());
    case AttrId::kIsStable:
      return if_true(in.is_stable());
    case AttrId::kFftType:
      return enumerated(in.fft_type(), true);
    case AttrId::kFftLength:
      return list(ToInts(in.fft_length()), true);
    case AttrId::kLower:
      return if_true(opcode == Opcode::kCholesky ? in.cholesky_options().lower()
                                                 : in.triangular_solve_options().lower());
    case AttrId::kLeftSide:
      return if_true(in.triangular_solve_options().left_side());
    case AttrId::kUnitDiagonal:
      return if_true(in.triangular_solve_options().unit_diagonal());
    case AttrId::kTransposeA:
      return enumerated(in.triangular_solve_options().transpose_a(), false);
    case AttrId::kEpsilon:
      return Maybe(AttrValue(static_cast<double>(in.epsilon())));
    case AttrId::kFeatureIndex:
      return number(in.feature_index());
    case AttrId::kExponentBits:
      return number(in.exponent_bits());
    case AttrId::kMantissaBits:
      return number(in.mantissa_bits());
    case AttrId::kRandomDistribution:
      return enumerated(in.distribution(), true);
    case AttrId::kRandomAlgorithm:
      return enumerated(in.rng_algorithm(), true);
    case AttrId::kDelta:
      return number(in.delta());
    case AttrId::kReplicaGroups: {
      ASSIGN_OR_RETURN(ReplicaGroups groups, GroupsFromProto(in));
      return Maybe(AttrValue(std::move(groups)));
    }
    case AttrId::kChannelId:
      return in.channel_id() > 0 || forced ? number(in.channel_id()) : Maybe(std::nullopt);
    case AttrId::kUseGlobalDeviceIds:
      return if_true(in.use_global_device_ids());
    case AttrId::kConstrainLayout:
      return if_true(in.constrain_layout());
    case AttrId::kSourceTargetPairs: {
      Pairs pairs;
      for (const auto& p : in.source_target_pairs()) pairs.emplace_back(p.source(), p.target());
      if (pairs.empty() && !forced && opcode != Opcode::kCollectivePermute) return Maybe(std::nullopt);
      return Maybe(AttrValue(std::move(pairs)));
    }
    case AttrId::kIsHostTransfer:
      return if_true(in.is_host_transfer());
    case AttrId::kInfeedConfig:
      return text(in.infeed_config());
    case AttrId::kOutfeedConfig:
      return text(in.outfeed_config());
    case AttrId::kOutfeedShape: {
      if (!in.has_outfeed_shape()) return Maybe(std::nullopt);
      ASSIGN_OR_RETURN(Shape s, ShapeFromProto(in.outfeed_shape()));
      return Maybe(AttrValue(std::vector<Shape>{std::move(s)}));
    }
    case AttrId::kCustomCallTarget:
      return Maybe(AttrValue(in.custom_call_target()));
    case AttrId::kOpaque:
      return custom && !typed ? text(in.backend_config()) : Maybe(std::nullopt);
    case AttrId::kFfiAttributes: {
      if (!custom || !typed || (in.backend_config().empty() && !forced)) return Maybe(std::nullopt);
      ASSIGN_OR_RETURN(FfiDictionary d, ParseFfiDictionary(in.backend_config().empty() ? "{}" : in.backend_config()));
      return Maybe(AttrValue(std::move(d)));
    }
    case AttrId::kOperandLayouts: {
      if (!in.constrain_layout() && !forced) return Maybe(std::nullopt);
      std::vector<Shape> shapes;
      for (const auto& p : in.operand_shapes_with_layout()) {
        ASSIGN_OR_RETURN(Shape s, ShapeFromProto(p));
        shapes.push_back(std::move(s));
      }
      return Maybe(AttrValue(std::move(shapes)));
    }
    case AttrId::kHasSideEffect:
      return if_true(in.custom_call_has_side_effect());
    case AttrId::kApiVersion: {
      const int n = in.custom_call_api_version();
      if (n <= static_cast<int>(CustomCallApiVersion::kOriginal) && !forced) return Maybe(std::nullopt);
      return enumerated(n, true);
    }
    case AttrId::kSchedule:
      return enumerated(in.custom_call_schedule(), false);
    case AttrId::kOutputOperandAliases: {
      OutputOperandAliases aliases;
      for (const auto& p : in.output_operand_aliasing())
        aliases.push_back({ToInts(p.output_index()), p.operand(), ToInts(p.operand_index())});
      if (aliases.empty() && !forced) return Maybe(std::nullopt);
      return Maybe(AttrValue(std::move(aliases)));
    }
    case AttrId::kFusionKind:
      return named(in.fusion_kind());
    case AttrId::kIsComposite:
      return if_true(in.is_composite());
    case AttrId::kK:
      return number(in.k());
    case AttrId::kLargest:
      return Maybe(AttrValue(in.largest()));
    case AttrId::kIsReverse:
      return if_true(in.is_reverse());
    case AttrId::kIsAssociative:
      return if_true(in.is_associative());
    case AttrId::kInplace:
      return if_true(in.inplace());
    case AttrId::kNumCarries:
      return number(in.num_carries());
    case AttrId::kIsCrossProgramPrefetch:
      if (in.optional_cross_program_prefetch_index_case() ==
          proto::HloInstructionProto::OPTIONAL_CROSS_PROGRAM_PREFETCH_INDEX_NOT_SET) {
        return Maybe(std::nullopt);
      }
      return number(in.cross_program_prefetch_index());
    case AttrId::kAsyncExecutionThread:
      return text(in.async_execution_thread());
    case AttrId::kDomain: {
      ASSIGN_OR_RETURN(std::string domain, DomainFromProto(in));
      return Maybe(AttrValue(std::move(domain)));
    }
    case AttrId::kCompositeName:
    case AttrId::kCompositeAttributes:
    case AttrId::kCompositeVersion:
    case AttrId::kIsPipelined:
    case AttrId::kSplitDimension:
    case AttrId::kBlockSize:
    case AttrId::kResultType:
      return Maybe(std::nullopt);
  }
  return Maybe(std::nullopt);
}

// The comparison type that a compare without one has; protos always name it, text never does.
ComparisonType DefaultComparison(PrimitiveType operand) {
  if (IsFloat(operand) || IsComplex(operand)) return ComparisonType::kFloat;
  return IsSigned(operand) ? ComparisonType::kSigned : ComparisonType::kUnsigned;
}

}  // namespace

void AttributesToProto(const Instruction& i, proto::HloInstructionProto* out) {
  if (i.Is(Opcode::kCompare) && i.operand_count() > 0) {
    const int type = static_cast<int>(DefaultComparison(i.operand(0)->shape().element_type()));
    out->set_comparison_type(std::string(FormatEnum(AttrKind::EnumComparisonType, type)));
  }
  for (const auto& [id, value] : i.attrs().entries()) WriteAttribute(i.opcode(), id, value, out);
  // XLA wants the message of a window even where it has no dimension.
  const std::vector<AttrId>& known = i.info().attributes;
  if (!i.Is(Opcode::kCustomCall) && std::find(known.begin(), known.end(), AttrId::kWindow) != known.end()) {
    out->mutable_window();
  }
  // Whatever would not come back is named.
  absl::StatusOr<Attributes> back = AttributesFromProto(i.opcode(), *out, i.operands());
  for (const auto& [id, value] : i.attrs().entries()) {
    if (back.ok() && back->Has(id)) continue;
    out->add_attributes_at_default(std::string(AttrName(id)));
  }
}

absl::StatusOr<Attributes> AttributesFromProto(Opcode opcode, const proto::HloInstructionProto& in,
                                               absl::Span<Instruction* const> operands) {
  Attributes attrs;
  for (AttrId id : Info(opcode).attributes) {
    const auto& names = in.attributes_at_default();
    const bool forced = std::find(names.begin(), names.end(), AttrName(id)) != names.end();
    ASSIGN_OR_RETURN(std::optional<AttrValue> value, ReadAttribute(opcode, id, in, forced));
    if (!value) continue;
    if (id == AttrId::kDotAlgorithm && operands.size() == 2) {
      ResolveF8Types(operands[0]->shape().element_type(), operands[1]->shape().element_type(),
                     std::get_if<DotAlgorithm>(&*value));
    }
    if (id == AttrId::kComparisonType && !forced && !operands.empty() &&
        ValueAs<EnumValue>(*value).value == static_cast<int>(DefaultComparison(operands[0]->shape().element_type()))) {
      continue;
    }
    attrs.Set(id, *std::move(value));
  }
  return attrs;
}

}  // namespace backplane
