// The types of attribute values. The parser, printer, importer, proto conversion, hash and equality are written once
// for each type and not once for each operation.
#ifndef BACKPLANE_CORE_OPS_ATTRIBUTE_VALUES_H_
#define BACKPLANE_CORE_OPS_ATTRIBUTE_VALUES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/types/shape.h"

namespace backplane {

using Ints = std::vector<int64_t>;

// One spatial dimension of a window. Text: size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate= rhs_dilate= rhs_reversal=.
struct WindowDimension {
  int64_t size = 1, stride = 1, padding_low = 0, padding_high = 0;
  int64_t window_dilation = 1;  // rhs_dilate: holes between window elements
  int64_t base_dilation = 1;    // lhs_dilate: holes between operand elements
  bool window_reversal = false;
  bool operator==(const WindowDimension&) const = default;
};
struct Window {
  std::vector<WindowDimension> dimensions;
  // Returns the product of the sizes: how many elements a window has, those on padding included. At most INT64_MAX.
  int64_t CountElements() const;
  bool operator==(const Window&) const = default;
};

// Text: dim_labels=b01f_01io->b01f.
struct ConvolutionDimensions {
  int64_t input_batch = 0, input_feature = 0;
  Ints input_spatial;
  int64_t kernel_input_feature = 0, kernel_output_feature = 0;
  Ints kernel_spatial;
  int64_t output_batch = 0, output_feature = 0;
  Ints output_spatial;
  bool operator==(const ConvolutionDimensions&) const = default;
};

// Text: lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}.
struct DotDimensions {
  Ints lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  bool operator==(const DotDimensions&) const = default;
};

struct RaggedDotDimensions {
  DotDimensions dot;
  Ints lhs_ragged, rhs_group;
  bool operator==(const RaggedDotDimensions&) const = default;
};

struct GatherDimensions {
  Ints offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims, start_indices_batching_dims;
  int64_t index_vector_dim = 0;
  bool operator==(const GatherDimensions&) const = default;
};

struct ScatterDimensions {
  Ints update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, input_batching_dims,
      scatter_indices_batching_dims;
  int64_t index_vector_dim = 0;
  bool operator==(const ScatterDimensions&) const = default;
};

// Text: padding=low_high_interiorxlow_high (interior only where not 0). Low and high may be negative.
struct PaddingDimension {
  int64_t low = 0, high = 0, interior = 0;
  bool operator==(const PaddingDimension&) const = default;
};
using PaddingConfig = std::vector<PaddingDimension>;

// Text: slice={[0:4], [1:9:2]}.
struct SliceDimension {
  int64_t start = 0, limit = 0, stride = 1;
  bool operator==(const SliceDimension&) const = default;
};
using SliceConfig = std::vector<SliceDimension>;

// A list of devices in compressed form: the numbers 0, 1, 2, ... are reshaped to `reshape_dims`, transposed by
// `transpose_perm` and read in row-major order. Text: [2,2]<=[2,2]T(1,0).
struct IotaDevices {
  Ints dims;  // dimensions of the list, printed in front of <=
  Ints reshape_dims;
  Ints transpose_perm;  // empty: identity
  bool Valid() const;   // products agree, transpose_perm is a permutation, at most kMaxDevices devices
  Ints Expand() const;  // the device ids in order; empty if not Valid()
  bool operator==(const IotaDevices&) const = default;
};

// The largest number of devices in a program. Larger lists in input are rejected.
inline constexpr int64_t kMaxDevices = int64_t{1} << 20;
// Readers keep longer lists of devices in iota form where that is possible: many instructions may have the same list.
inline constexpr int64_t kMaxListedDevices = 64;
// The largest mesh whose devices a text may transpose, and the largest one if the list then has no iota form. Such a
// text is short, and each instruction that has it has a list of its own.
inline constexpr int64_t kMaxTransposedDevices = int64_t{1} << 14;
inline constexpr int64_t kMaxExpandedDevices = int64_t{1} << 10;

// One loop of a numbering of devices: `size` steps of `stride` devices.
struct DeviceLoop {
  int64_t size = 1, stride = 1;
};
// Returns the list of devices that nested loops run through, the outermost loop first. In the order of their strides,
// the loops number all devices in row-major order.
IotaDevices MakeIotaDevices(Ints dims, absl::Span<const DeviceLoop> loops);
// Returns the iota form of a list of devices, or nullopt if it has none.
std::optional<IotaDevices> FindIotaDevices(Ints dims, absl::Span<const int64_t> devices);

// Text: replica_groups={{0,1},{2,3}} or replica_groups=[2,2]<=[4] or [2,2]<=[2,2]T(1,0) or mesh['a'=2,'b'=2] {'b'}.
struct ReplicaGroups {
  std::vector<Ints> groups;         // used when `iota` is absent
  std::optional<IotaDevices> iota;  // dims = {group count, group size}
  std::string mesh;                 // the original text if it named mesh axes; the groups are its expansion
  std::vector<Ints> Expand() const;
  // Brings a list of more than kMaxListedDevices devices into iota form if it has one.
  void Compress();
  // Returns the size of a group that does not have `size` members, or nullopt if all have.
  std::optional<int64_t> FindOtherSize(int64_t size) const;
  bool empty() const { return groups.empty() && !iota; }
  bool operator==(const ReplicaGroups&) const = default;
};

using Pairs = std::vector<std::pair<int64_t, int64_t>>;  // source_target_pairs={{0,1},{1,0}}

enum class ComparisonDirection : uint8_t { kEq, kNe, kGe, kGt, kLe, kLt };
// Returns the direction that holds if and only if `d` does not, for numbers that are ordered: not for NaN, except
// between equal and not-equal.
ComparisonDirection InvertDirection(ComparisonDirection d);
enum class ComparisonType : uint8_t { kFloat, kTotalOrder, kSigned, kUnsigned };
enum class Precision : uint8_t { kDefault, kHigh, kHighest, kPackedNibble };
enum class FftType : uint8_t { kFft, kIfft, kRfft, kIrfft };
enum class RandomAlgorithm : uint8_t { kDefault, kThreeFry, kPhilox };
enum class RandomDistribution : uint8_t { kInvalid, kUniform, kNormal };
enum class TriangularTranspose : uint8_t { kNoTranspose = 1, kTranspose = 2, kAdjoint = 3 };
enum class CustomCallApiVersion : uint8_t {
  kUnspecified,
  kOriginal,
  kStatusReturning,
  kStatusReturningUnified,
  kTypedFfi
};
enum class FusionKind : uint8_t { kLoop, kInput, kOutput, kCustom };
enum class CustomCallSchedule : uint8_t { kNone, kLatest, kEarliest };

// The value of an enumerated attribute. It is stored as a number so that AttrValue needs one alternative for all
// enumerations; the attribute's line in attributes.def tells which enumeration it is.
struct EnumValue {
  int32_t value = 0;
  bool operator==(const EnumValue&) const = default;
};

using Precisions = std::vector<Precision>;  // operand_precision={high,default}

// The algorithm of a dot. Text: algorithm=dot_bf16_bf16_f32_x3.
struct DotAlgorithm {
  PrimitiveType lhs_type = PrimitiveType::kInvalid, rhs_type = PrimitiveType::kInvalid,
                accumulation_type = PrimitiveType::kInvalid;
  int64_t lhs_components = 1, rhs_components = 1, primitive_operations = 1;
  bool allow_imprecise_accumulation = false;
  bool operator==(const DotAlgorithm&) const = default;
};

struct ResultAccuracy {
  enum class Mode : uint8_t { kDefault, kHighest, kTolerance } mode = Mode::kDefault;
  double atol = 0, rtol = 0;
  int64_t ulps = 0;
  bool operator==(const ResultAccuracy&) const = default;
};

// Output {output_index} of a custom call may share memory with element {operand_index} of operand number `operand`.
struct OutputOperandAlias {
  Ints output_index;
  int64_t operand = 0;
  Ints operand_index;
  bool operator==(const OutputOperandAlias&) const = default;
};
using OutputOperandAliases = std::vector<OutputOperandAlias>;

// The attribute dictionary of a custom call with the typed FFI. Text form as MLIR prints a dictionary: {a = 1 : i64, b
// = "s"}.
struct FfiAttribute;
using FfiDictionary = std::map<std::string, FfiAttribute>;  // ordered by name, as the FFI ABI requires
struct FfiAttribute {
  enum class Kind : uint8_t { kScalar, kArray, kString, kDictionary } kind = Kind::kScalar;
  PrimitiveType type = PrimitiveType::kInvalid;  // scalar and array
  std::string bytes;                             // little-endian bytes of all elements; or the string
  FfiDictionary dictionary;
  int64_t array_size() const;
  bool operator==(const FfiAttribute&) const = default;
};
std::string ToString(const FfiDictionary& dictionary);
absl::StatusOr<FfiDictionary> ParseFfiDictionary(absl::string_view text);

// How a value is split over devices. The fields are those of OpSharding in xla_data.proto. Text: {replicated}, {maximal
// device=1}, {devices=[2,1,2]<=[4] last_tile_dim_replicate}, {manual}, {{..},{..}} for tuples, {mesh['a'=2,'b'=2],
// [{'a'}, {}]}.
struct Sharding {
  enum class Type : uint8_t {
    kReplicated,
    kMaximal,
    kTuple,
    kOther,
    kManual,
    kUnknown,
    kUnreduced
  } type = Type::kReplicated;
  Ints tile_dims;                   // tile_assignment_dimensions, including the trailing subgroup dims
  Ints devices;                     // explicit device ids; empty if `iota` is set
  std::optional<IotaDevices> iota;  // dims == tile_dims
  bool replicate_on_last_tile_dim = false;
  std::vector<Type> last_tile_dims;
  std::vector<Sharding> tuple;
  std::string mesh;      // the original text if it named mesh axes; the fields above are its meaning
  std::string metadata;  // text {op_name="x"}, which has no effect
  enum class Group : uint8_t { kNone, kAs, kLike } group = Group::kNone;  // shard_as or shard_like group group_id
  int64_t group_id = 0;
  Ints DeviceList() const;  // all device ids, with `iota` expanded
  std::string ToString() const;
  bool operator==(const Sharding&) const = default;
};
absl::StatusOr<Sharding> ParseSharding(absl::string_view text);

using StringMap = std::map<std::string, std::string>;

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_ATTRIBUTE_VALUES_H_
