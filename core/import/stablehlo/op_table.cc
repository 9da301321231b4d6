#include "core/import/stablehlo/op_table.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/source_build.h"
#include "core/ops/op_info.h"

namespace backplane::stablehlo {
namespace {

constexpr Arity k0{0, false}, k1{1, false}, k2{2, false}, k3{3, false}, k4{4, false}, k5{5, false};
constexpr Arity kAny{0, true}, k1More{1, true}, k2More{2, true}, k3More{3, true};

constexpr char kAccuracy[] = "result_accuracy";
constexpr char kConvolution[] =
    "batch_group_count feature_group_count input_batch_dimension input_feature_dimension input_spatial_dimensions "
    "kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation "
    "output_batch_dimension output_feature_dimension output_spatial_dimensions padding precision_config rhs_dilation "
    "window_reversal window_strides";
constexpr char kDynamicConvolution[] =
    "batch_group_count feature_group_count input_batch_dimension input_feature_dimension input_spatial_dimensions "
    "kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation "
    "output_batch_dimension output_feature_dimension output_spatial_dimensions precision_config rhs_dilation "
    "window_reversal window_strides";
constexpr char kAllToAll[] = "channel_id concat_dimension replica_groups split_count split_dimension";
constexpr char kAllGather[] = "all_gather_dim channel_id replica_groups use_global_device_ids";
constexpr char kAllReduce[] = "channel_id replica_groups use_global_device_ids";
constexpr char kBatchNorm[] = "epsilon feature_index";
constexpr char kComposite[] = "composite_attributes decomposition name version";
constexpr char kCustomCall[] =
    "api_version backend_config call_target_name called_computations has_side_effect operand_layouts "
    "output_operand_aliases result_layouts";
constexpr char kCustomCall2[] =
    "api_version backend_config call_target_name called_computations has_side_effect operand_layouts "
    "output_operand_aliases result_layouts result_tilings";
constexpr char kSend[] = "channel_id channel_type is_host_transfer";
constexpr char kSend2[] = "channel_id channel_type is_host_transfer source_target_pairs";

// clang-format off
// The forms of all ops but the elementwise ones, whose forms come from core/ops/op_table.def (AddElementwiseForms).
constexpr OpForm kForms[] = {
    {"async_done", 1, 1015, 0, k1, kAny, k0, ""},
    {"bitcast_convert", 1, 9, 0, k1, k1, k0, ""}, {"convert", 1, 9, 0, k1, k1, k0, ""},
    {"reshape", 1, 9, 0, k1, k1, k0, ""},
    {"uniform_dequantize", 1, 9, 0, k1, k1, k0, ""}, {"uniform_quantize", 1, 9, 0, k1, k1, k0, ""},
    {"after_all", 1, 9, 0, kAny, k1, k0, ""},
    {"all_gather", 1, 9, 1004, k1, k1, k0, kAllGather}, {"all_gather", 2, 1005, 0, kAny, kAny, k0, kAllGather},
    {"all_reduce", 1, 9, 1004, k1, k1, k1, kAllReduce}, {"all_reduce", 2, 1005, 0, kAny, kAny, k1, kAllReduce},
    {"all_to_all", 1, 9, 1004, k1, k1, k0, kAllToAll}, {"all_to_all", 2, 1005, 0, kAny, kAny, k0, kAllToAll},
    {"async_start", 1, 1015, 0, kAny, k1, k1, ""},
    {"batch_norm_grad", 1, 9, 0, k5, k3, k0, kBatchNorm}, {"batch_norm_inference", 1, 9, 0, k5, k1, k0, kBatchNorm},
    {"batch_norm_training", 1, 9, 0, k3, k3, k0, kBatchNorm},
    {"broadcast", 1, 9, 0, k1, k1, k0, "broadcast_sizes"},
    {"broadcast_in_dim", 1, 9, 0, k1, k1, k0, "broadcast_dimensions"},
    {"call", 1, 9, 0, kAny, kAny, k0, "callee"},
    {"case", 1, 9, 0, k1, kAny, k1More, ""}, {"if", 1, 9, 0, k1, kAny, k2, ""},
    {"cholesky", 1, 9, 0, k1, k1, k0, "lower"},
    {"clamp", 1, 9, 0, k3, k1, k0, ""}, {"select", 1, 9, 0, k3, k1, k0, ""},
    {"collective_broadcast", 1, 16, 1019, k1, k1, k0, "channel_id replica_groups"},
    {"collective_broadcast", 2, 1020, 0, kAny, kAny, k0, "channel_id has_dynamic_root replica_groups"},
    {"collective_permute", 1, 9, 0, k1, k1, k0, "channel_id source_target_pairs"},
    {"collective_reduce", 1, 1019, 0, kAny, kAny, k1, "channel_id has_dynamic_root replica_groups use_global_device_ids"},
    {"compare", 1, 9, 0, k2, k1, k0, "compare_type comparison_direction"},
    {"composite", 1, 19, 1013, kAny, kAny, k0, kComposite}, {"composite", 2, 1014, 0, kAny, kAny, kAny, kComposite},
    {"concatenate", 1, 9, 0, k1More, k1, k0, "dimension"},
    {"constant", 1, 9, 0, k0, k1, k0, "value"},
    {"convolution", 1, 9, 0, k2, k1, k0, kConvolution},
    {"create_token", 1, 9, 0, k0, k1, k0, ""}, {"partition_id", 1, 9, 0, k0, k1, k0, ""},
    {"replica_id", 1, 9, 0, k0, k1, k0, ""},
    {"cross-replica-sum", 1, 9, 0, k1, k1, k0, "replica_groups"},
    {"custom_call", 1, 9, 1017, kAny, kAny, k0, kCustomCall}, {"custom_call", 2, 1018, 0, kAny, kAny, k0, kCustomCall2},
    {"dot", 1, 9, 0, k2, k1, k0, "precision_config"},
    {"dot_general", 1, 9, 1005, k2, k1, k0,
     "lhs_batching_dimensions lhs_contracting_dimensions precision_config rhs_batching_dimensions "
     "rhs_contracting_dimensions"},
    {"dot_general", 2, 1006, 0, k2, k1, k0,
     "accumulation_type allow_imprecise_accumulation lhs_batching_dimensions lhs_component_count "
     "lhs_contracting_dimensions lhs_precision_type num_primitive_operations precision_config rhs_batching_dimensions "
     "rhs_component_count rhs_contracting_dimensions rhs_precision_type"},
    {"dynamic_broadcast_in_dim", 1, 9, 0, k2, k1, k0,
     "broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions"},
    {"dynamic_conv", 1, 9, 19, k3, k1, k0, kConvolution}, {"dynamic_conv", 2, 20, 0, k3, k1, k0, kDynamicConvolution},
    {"gather", 1, 9, 1000, k2, k1, k0,
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims slice_sizes start_index_map"},
    {"gather", 2, 1001, 0, k2, k1, k0,
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims slice_sizes "
     "start_index_map start_indices_batching_dims"},
    {"dynamic_gather", 1, 9, 1000, k3, k1, k0,
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims start_index_map"},
    {"dynamic_gather", 2, 1001, 0, k3, k1, k0,
     "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims start_index_map "
     "start_indices_batching_dims"},
    {"dynamic_iota", 1, 9, 0, k1, k1, k0, "iota_dimension"}, {"iota", 1, 9, 0, k0, k1, k0, "iota_dimension"},
    {"dynamic_pad", 1, 9, 0, k5, k1, k0, ""}, {"dynamic_reshape", 1, 9, 0, k2, k1, k0, ""},
    {"real_dynamic_slice", 1, 9, 0, k4, k1, k0, ""},
    {"dynamic_slice", 1, 9, 0, k1More, k1, k0, "slice_sizes"},
    {"dynamic_update_slice", 1, 9, 0, k2More, k1, k0, ""},
    {"einsum", 1, 9, 0, k2, k1, k0, "einsum_config"}, {"unary_einsum", 1, 9, 0, k1, k1, k0, "einsum_config"},
    {"fft", 1, 9, 0, k1, k1, k0, "fft_length fft_type"},
    {"func", 1, 9, 0, k0, k0, k1, "arg_attrs function_type res_attrs sym_name sym_visibility"},
    {"get_dimension_size", 1, 9, 0, k1, k1, k0, "dimension"}, {"set_dimension_size", 1, 9, 0, k2, k1, k0, "dimension"},
    {"get_tuple_element", 1, 9, 0, k1, k1, k0, "index"}, {"tuple", 1, 9, 0, kAny, k1, k0, ""},
    {"infeed", 1, 9, 0, k1, kAny, k0, "infeed_config layout"},
    {"outfeed", 1, 9, 0, k1More, k1, k0, "outfeed_config"},
    {"map", 1, 9, 0, kAny, k1, k1, "dimensions"},
    {"optimization_barrier", 1, 9, 0, kAny, kAny, k0, ""}, {"return", 1, 9, 0, kAny, k0, k0, ""},
    {"pad", 1, 9, 0, k2, k1, k0, "edge_padding_high edge_padding_low interior_padding"},
    {"recv", 1, 9, 1011, k1, kAny, k0, kSend}, {"recv", 2, 1012, 0, k1, kAny, k0, kSend2},
    {"send", 1, 9, 1011, k1More, k1, k0, kSend}, {"send", 2, 1012, 0, k1More, k1, k0, kSend2},
    {"reduce", 1, 9, 0, k2More, kAny, k1, "dimensions"},
    {"reduce_precision", 1, 9, 0, k1, k1, k0, "exponent_bits mantissa_bits"},
    {"reduce_scatter", 1, 9, 0, k1, k1, k1, "channel_id replica_groups scatter_dimension use_global_device_ids"},
    {"reduce_window", 1, 9, 0, k2More, kAny, k1,
     "base_dilations padding window_dilations window_dimensions window_strides"},
    {"reverse", 1, 9, 0, k1, k1, k0, "dimensions"},
    {"rng", 1, 9, 0, k3, k1, k0, "rng_distribution"}, {"rng_bit_generator", 1, 9, 0, k1, k2, k0, "rng_algorithm"},
    {"scatter", 1, 9, 1000, k3More, k1More, k1,
     "index_vector_dim indices_are_sorted inserted_window_dims scatter_dims_to_operand_dims unique_indices "
     "update_window_dims"},
    {"scatter", 2, 1001, 0, k3More, k1More, k1,
     "index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims scatter_dims_to_operand_dims "
     "scatter_indices_batching_dims unique_indices update_window_dims"},
    {"select_and_scatter", 1, 9, 0, k3, k1, k2, "padding window_dimensions window_strides"},
    {"slice", 1, 9, 0, k1, k1, k0, "limit_indices start_indices strides"},
    {"sort", 1, 9, 0, kAny, kAny, k1, "dimension is_stable"},
    {"torch_index_select", 1, 9, 0, k2, k1, k0, "batch_dims dim"},
    {"transpose", 1, 9, 0, k1, k1, k0, "permutation"},
    {"triangular_solve", 1, 9, 0, k2, k1, k0, "left_side lower transpose_a unit_diagonal"},
    {"while", 1, 9, 0, kAny, kAny, k2, ""},
};
// clang-format on

// Operations of one result and no attributes, but the result accuracy that later versions have.
void AddElementwiseForms(std::vector<OpForm>* forms) {
  for (const OpInfo& info : Operations()) {
    if (info.since == 0) continue;  // none of the portable operations
    const Arity operands{static_cast<uint8_t>(info.arity), false};
    const auto since = static_cast<uint16_t>(info.since), accuracy_since = static_cast<uint16_t>(info.accuracy_since);
    uint8_t version = 1;
    if (accuracy_since != since) {
      const auto until = static_cast<uint16_t>(accuracy_since == 0 ? 0 : accuracy_since - 1);
      forms->push_back({info.stablehlo, version++, since, until, operands, k1, k0, ""});
    }
    if (accuracy_since != 0) {
      forms->push_back({info.stablehlo, version, accuracy_since, 0, operands, k1, k0, kAccuracy});
    }
  }
}

const std::vector<OpForm>& Forms() {
  static const auto* forms = [] {
    auto* all = new std::vector<OpForm>(std::begin(kForms), std::end(kForms));
    AddElementwiseForms(all);
    return all;
  }();
  return *forms;
}

struct Foreign {
  const char* name;
  const char* attributes;
};
constexpr Foreign kForeign[] = {
    {"builtin.module", "sym_name? sym_visibility?"},
    {"builtin.unrealized_conversion_cast", ""},
    {"sdy.return", ""},
    {"sdy.mesh", "mesh sym_name"},
    {"sdy.manual_computation", "in_shardings manual_axes out_shardings"},
    {"sdy.sharding_constraint", "sharding"},
    {"sdy.reshard", "sharding"},
    {"sdy.sharding_group", "group_id"},
    {"sdy.named_computation", "in_shardings? name out_shardings?"},
    {"sdy.propagation_barrier", "allowed_direction"},
    {"sdy.all_slice", "out_sharding slicing_axes"},
    {"sdy.all_reduce", "out_sharding reduction_axes"},
    {"sdy.reduce_scatter", "out_sharding reduce_scatter_axes"},
    {"sdy.all_gather", "gathering_axes out_sharding"},
    {"sdy.all_to_all", "out_sharding params"},
    {"sdy.collective_permute", "out_sharding"},
    {"sdy.sharded_to_unreduced", "axes out_sharding"},
    {"sdy.replicated_to_unreduced", "axes out_sharding"},
    {"sdy.data_flow_edge", "sharding?"},
    {"sdy.constant", "value"},
};

using FormIndex = absl::flat_hash_map<std::string, const OpForm*>;

std::string MakeSourceName(const OpForm& form) {
  absl::string_view name = form.name;
  return absl::StrCat(name == "func" || name == "call" ? "func." : "stablehlo.", name);
}

const FormIndex& ByVhloName() {
  static const FormIndex* index = [] {
    auto* m = new FormIndex;
    for (const OpForm& f : Forms()) m->emplace(absl::StrCat(f.name, "_v", f.version), &f);
    return m;
  }();
  return *index;
}

const FormIndex& BySourceName() {
  static const FormIndex* index = [] {
    auto* m = new FormIndex;
    for (const OpForm& f : Forms()) {
      const OpForm*& slot = (*m)[MakeSourceName(f)];
      if (slot == nullptr || slot->version < f.version) slot = &f;
    }
    return m;
  }();
  return *index;
}

// The kind of value that an inherent attribute holds.
enum class Kind {
  kInteger,
  kBool,
  kFloat,
  kString,
  kStringOrDict,
  kEnum,
  kDense,
  kDenseOrDict,
  kArray,
  kDict,
  kType,
  kTypeOrInteger,
  kTypeOrBool
};
struct KindRow {
  const char* name;
  Kind kind;
};
constexpr KindRow kKinds[] = {
    {"accumulation_type", Kind::kType},
    {"all_gather_dim", Kind::kInteger},
    {"allow_imprecise_accumulation", Kind::kTypeOrBool},
    {"api_version", Kind::kEnum},
    {"arg_attrs", Kind::kArray},
    {"backend_config", Kind::kStringOrDict},
    {"base_dilations", Kind::kDense},
    {"batch_dims", Kind::kInteger},
    {"batch_group_count", Kind::kInteger},
    {"broadcast_dimensions", Kind::kDense},
    {"broadcast_sizes", Kind::kDense},
    {"call_target_name", Kind::kString},
    {"called_computations", Kind::kArray},
    {"callee", Kind::kString},
    {"channel_id", Kind::kInteger},
    {"channel_type", Kind::kInteger},
    {"collapsed_slice_dims", Kind::kDense},
    {"compare_type", Kind::kEnum},
    {"comparison_direction", Kind::kEnum},
    {"composite_attributes", Kind::kDict},
    {"concat_dimension", Kind::kInteger},
    {"decomposition", Kind::kString},
    {"dim", Kind::kInteger},
    {"dimension", Kind::kInteger},
    {"dimensions", Kind::kDense},
    {"edge_padding_high", Kind::kDense},
    {"edge_padding_low", Kind::kDense},
    {"einsum_config", Kind::kString},
    {"epsilon", Kind::kFloat},
    {"exponent_bits", Kind::kInteger},
    {"feature_group_count", Kind::kInteger},
    {"feature_index", Kind::kInteger},
    {"fft_length", Kind::kDense},
    {"fft_type", Kind::kEnum},
    {"function_type", Kind::kType},
    {"has_dynamic_root", Kind::kBool},
    {"has_side_effect", Kind::kBool},
    {"index", Kind::kInteger},
    {"index_vector_dim", Kind::kInteger},
    {"indices_are_sorted", Kind::kBool},
    {"infeed_config", Kind::kString},
    {"input_batch_dimension", Kind::kInteger},
    {"input_batching_dims", Kind::kDense},
    {"input_feature_dimension", Kind::kInteger},
    {"input_spatial_dimensions", Kind::kDense},
    {"inserted_window_dims", Kind::kDense},
    {"interior_padding", Kind::kDense},
    {"iota_dimension", Kind::kInteger},
    {"is_host_transfer", Kind::kBool},
    {"is_stable", Kind::kBool},
    {"kernel_input_feature_dimension", Kind::kInteger},
    {"kernel_output_feature_dimension", Kind::kInteger},
    {"kernel_spatial_dimensions", Kind::kDense},
    {"known_expanding_dimensions", Kind::kDense},
    {"known_nonexpanding_dimensions", Kind::kDense},
    {"layout", Kind::kArray},
    {"left_side", Kind::kBool},
    {"lhs_batching_dimensions", Kind::kDense},
    {"lhs_component_count", Kind::kTypeOrInteger},
    {"lhs_contracting_dimensions", Kind::kDense},
    {"lhs_dilation", Kind::kDense},
    {"lhs_precision_type", Kind::kType},
    {"limit_indices", Kind::kDense},
    {"lower", Kind::kBool},
    {"mantissa_bits", Kind::kInteger},
    {"name", Kind::kString},
    {"num_primitive_operations", Kind::kTypeOrInteger},
    {"offset_dims", Kind::kDense},
    {"operand_batching_dims", Kind::kDense},
    {"operand_layouts", Kind::kArray},
    {"outfeed_config", Kind::kString},
    {"output_batch_dimension", Kind::kInteger},
    {"output_feature_dimension", Kind::kInteger},
    {"output_operand_aliases", Kind::kArray},
    {"output_spatial_dimensions", Kind::kDense},
    {"padding", Kind::kDense},
    {"permutation", Kind::kDense},
    {"precision_config", Kind::kArray},
    {"replica_groups", Kind::kDenseOrDict},
    {"res_attrs", Kind::kArray},
    {"result_accuracy", Kind::kDict},
    {"result_layouts", Kind::kArray},
    {"result_tilings", Kind::kArray},
    {"rhs_batching_dimensions", Kind::kDense},
    {"rhs_component_count", Kind::kTypeOrInteger},
    {"rhs_contracting_dimensions", Kind::kDense},
    {"rhs_dilation", Kind::kDense},
    {"rhs_precision_type", Kind::kType},
    {"rng_algorithm", Kind::kEnum},
    {"rng_distribution", Kind::kEnum},
    {"scatter_dimension", Kind::kInteger},
    {"scatter_dims_to_operand_dims", Kind::kDense},
    {"scatter_indices_batching_dims", Kind::kDense},
    {"slice_sizes", Kind::kDense},
    {"source_target_pairs", Kind::kDense},
    {"split_count", Kind::kInteger},
    {"split_dimension", Kind::kInteger},
    {"start_index_map", Kind::kDense},
    {"start_indices", Kind::kDense},
    {"start_indices_batching_dims", Kind::kDense},
    {"strides", Kind::kDense},
    {"sym_name", Kind::kString},
    {"sym_visibility", Kind::kString},
    {"transpose_a", Kind::kEnum},
    {"unique_indices", Kind::kBool},
    {"unit_diagonal", Kind::kBool},
    {"update_window_dims", Kind::kDense},
    {"use_global_device_ids", Kind::kBool},
    {"value", Kind::kDense},
    {"version", Kind::kInteger},
    {"window_dilations", Kind::kDense},
    {"window_dimensions", Kind::kDense},
    {"window_reversal", Kind::kDense},
    {"window_strides", Kind::kDense},
};

const SourceAttr* FindAttr(const std::vector<SourceNamedAttr>& list, absl::string_view name) {
  for (const SourceNamedAttr& a : list) {
    if (a.name == name) return a.value;
  }
  return nullptr;
}

// Length of the dense list `name`; 0 when it is not there.
int64_t ListLength(const std::vector<SourceNamedAttr>& list, absl::string_view name) {
  const SourceAttr* a = FindAttr(list, name);
  if (!a || a->kind != AttrKind::kDense || a->type->dims.size() != 1) return 0;
  return std::min<int64_t>(a->type->dims[0], 1 << 16);
}

const SourceAttr* MakeFilled(SourceArena& arena, std::vector<int64_t> dims, ElementKind kind, int64_t value) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  int step = ElementStorageBytes(kind);
  char* bytes = arena.NewBytes(n * step);
  for (int64_t i = 0; i < n; ++i) {
    for (int b = 0; b < step; ++b) bytes[i * step + b] = static_cast<char>(static_cast<uint64_t>(value) >> (8 * b));
  }
  return MakeDense(arena, MakeTensorType(arena, dims, ScalarType(kind)), absl::string_view(bytes, n * step), false);
}

// The value that `name` of `op` has when it is left out; null when it must be given.
const SourceAttr* DefaultValue(SourceArena& arena, absl::string_view op, absl::string_view name,
                               const std::vector<SourceNamedAttr>& given) {
  auto is = [&](auto... names) { return ((name == names) || ...); };
  auto default_accuracy = [&] {
    return MakeDict(arena, {{"atol", MakeFloat(arena, 0, ElementKind::kF64)},
                            {"mode", MakeEnum(arena, "DEFAULT")},
                            {"rtol", MakeFloat(arena, 0, ElementKind::kF64)},
                            {"ulps", MakeInteger(arena, 0)}});
  };
  if (is("result_accuracy")) return default_accuracy();
  if (is("channel_id")) return MakeInteger(arena, 0);
  if (is("use_global_device_ids", "has_dynamic_root", "indices_are_sorted", "unique_indices", "has_side_effect",
         "is_host_transfer", "is_stable")) {
    return MakeBool(arena, false);
  }
  if (is("lower") && op == "cholesky") return MakeBool(arena, false);
  if (is("compare_type")) return MakeEnum(arena, "NOTYPE");
  if (is("version") && op == "composite") return MakeInteger(arena, 0, ElementKind::kI32);
  if (is("composite_attributes")) return MakeDict(arena, {});
  if (is("api_version")) return MakeEnum(arena, "API_VERSION_ORIGINAL");
  if (is("backend_config", "infeed_config", "outfeed_config", "sym_visibility")) return MakeString(arena, "");
  if (is("called_computations", "operand_layouts", "result_layouts", "output_operand_aliases", "result_tilings",
         "layout", "arg_attrs", "res_attrs")) {
    return MakeArray(arena, {});
  }
  if (is("operand_batching_dims", "start_indices_batching_dims", "input_batching_dims", "scatter_indices_batching_dims",
         "known_expanding_dimensions", "known_nonexpanding_dimensions")) {
    return MakeI64List(arena, {});
  }
  if (is("source_target_pairs") && (op == "send" || op == "recv")) return MakeI64List(arena, {});
  if (is("dimension") && op == "sort") return MakeInteger(arena, -1);
  if (is("precision_config")) {
    const SourceAttr* plain = MakeEnum(arena, "DEFAULT");
    return MakeArray(arena, {plain, plain});
  }
  if (op == "dot_general" &&
      is("accumulation_type", "allow_imprecise_accumulation", "lhs_component_count", "lhs_precision_type",
         "num_primitive_operations", "rhs_component_count", "rhs_precision_type")) {
    return MakeType(arena, NoneType());
  }
  bool convolution = op == "convolution" || op == "dynamic_conv";
  bool window = op == "reduce_window" || op == "select_and_scatter";
  if (convolution || window) {
    int64_t n = ListLength(given, convolution ? "input_spatial_dimensions" : "window_dimensions");
    if (is("window_strides", "lhs_dilation", "rhs_dilation", "base_dilations", "window_dilations")) {
      return MakeFilled(arena, {n}, ElementKind::kI64, 1);
    }
    if (is("padding")) return MakeFilled(arena, {n, 2}, ElementKind::kI64, 0);
    if (is("window_reversal")) return MakeFilled(arena, {n}, ElementKind::kBool, 0);
  }
  return nullptr;
}

}  // namespace

const OpForm* FindVhloForm(absl::string_view vhlo_name) {
  auto it = ByVhloName().find(vhlo_name);
  return it == ByVhloName().end() ? nullptr : it->second;
}

const OpForm* FindNewestForm(absl::string_view op_name) {
  if (op_name == "func.return") op_name = "stablehlo.return";
  auto it = BySourceName().find(op_name);
  return it == BySourceName().end() ? nullptr : it->second;
}

absl::Span<const OpForm> AllVhloForms() { return Forms(); }

absl::string_view SourceOpName(const OpForm& form) {
  // The index owns one string for each name.
  return BySourceName().find(MakeSourceName(form))->first;
}

const char* FindForeignAttributes(absl::string_view op_name) {
  for (const Foreign& f : kForeign) {
    if (op_name == f.name) return f.attributes;
  }
  return nullptr;
}

std::vector<absl::string_view> SplitNames(absl::string_view names) {
  std::vector<absl::string_view> out;
  while (!names.empty()) {
    size_t end = names.find(' ');
    out.push_back(names.substr(0, end));
    names = end == absl::string_view::npos ? absl::string_view() : names.substr(end + 1);
  }
  return out;
}

absl::Status CompleteAttributes(SourceArena& arena, const OpForm& newest, std::vector<SourceNamedAttr>* attributes) {
  for (absl::string_view name : SplitNames(newest.attributes)) {
    if (FindAttr(*attributes, name)) continue;
    const SourceAttr* value = DefaultValue(arena, newest.name, name, *attributes);
    if (!value) return absl::InvalidArgumentError(absl::StrCat("attribute ", name, " is missing"));
    attributes->push_back({name, value});
  }
  absl::string_view repeated;
  if (!SortEntries(attributes, &repeated)) {
    return absl::InvalidArgumentError(absl::StrCat("attribute ", repeated, " stands twice"));
  }
  return absl::OkStatus();
}

absl::Status CheckAttributeKind(absl::string_view op, absl::string_view name, const SourceAttr* value) {
  auto row = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const KindRow& r) { return name == r.name; });
  if (row == std::end(kKinds)) return absl::OkStatus();
  AttrKind k = value->kind;
  bool none_type = k == AttrKind::kType && value->type->kind == TypeKind::kNone;
  bool good = false;
  const char* expected = "";
  switch (row->kind) {
    case Kind::kInteger:
      good = k == AttrKind::kInteger;
      expected = "an integer";
      break;
    case Kind::kBool:
      good = k == AttrKind::kBool;
      expected = "a bool";
      break;
    case Kind::kFloat:
      good = k == AttrKind::kFloat;
      expected = "a float";
      break;
    case Kind::kString:
      good = k == AttrKind::kString;
      expected = "a string";
      break;
    case Kind::kStringOrDict:
      good = k == AttrKind::kString || k == AttrKind::kDict;
      expected = "a string or a dictionary";
      break;
    case Kind::kEnum:
      good = k == AttrKind::kEnum;
      expected = "an enumeration";
      break;
    case Kind::kDense:
      good = k == AttrKind::kDense;
      expected = "a tensor";
      break;
    case Kind::kDenseOrDict:
      good = k == AttrKind::kDense || k == AttrKind::kDict;
      expected = "a tensor or mesh axes";
      break;
    case Kind::kArray:
      good = k == AttrKind::kArray;
      expected = "an array";
      break;
    case Kind::kDict:
      good = k == AttrKind::kDict;
      expected = "a dictionary";
      break;
    case Kind::kType:
      good = k == AttrKind::kType;
      expected = "a type";
      break;
    case Kind::kTypeOrInteger:
      good = none_type || k == AttrKind::kInteger;
      expected = "an integer";
      break;
    case Kind::kTypeOrBool:
      good = none_type || k == AttrKind::kBool;
      expected = "a bool";
      break;
  }
  if (good) return absl::OkStatus();
  DumpOptions brief;
  std::string found = value->weight < 256 ? AttrToString(value, brief) : "a large attribute";
  return absl::InvalidArgumentError(absl::StrCat(op, ": attribute ", name, ": expected ", expected, ", found ", found));
}

}  // namespace backplane::stablehlo
