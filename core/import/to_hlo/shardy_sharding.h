// Converts Shardy's text of meshes and shardings to the core's Sharding.
//
//   mesh       <["x"=2, "y"=4]>  <["x"=2], device_ids=[1, 0]>  <[], device_ids=[3]> (one device alone: maximal)
//   sharding   <@mesh, [{"x"}, {"y":(1)2, ?}p0, {}], replicated={..}>; the mesh may be given inline
//   per value  <[<@mesh, [..]>, ...]>
//
// The text may begin with "#sdy.sharding" or another prefix. Errors are InvalidArgument and contain the text.
#ifndef BACKPLANE_CORE_IMPORT_TO_HLO_SHARDY_SHARDING_H_
#define BACKPLANE_CORE_IMPORT_TO_HLO_SHARDY_SHARDING_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/attribute_values.h"

namespace backplane::to_hlo {

using MeshTexts = std::map<std::string, std::string>;  // by name

struct ShardySharding {
  Sharding sharding;
  Ints open;                      // dimensions that may be split further ({..., ?})
  bool is_unconstrained = false;  // all dimensions open, no axis named
  // Set with `only_axes`: the sharding of a value inside the region, manual along those axes and replicated along the
  // others (last_tile_dims={manual, replicated}); {manual} if there are no others.
  Sharding region;
};

// Converts the sharding of an array of `rank` dimensions; a text without dimensions is accepted as well. With
// `only_axes`, all other axes count as replicated, as in a region that is manual along those axes.
absl::StatusOr<ShardySharding> ConvertShardySharding(absl::string_view text, const MeshTexts& meshes, int64_t rank,
                                                     const std::set<std::string>* only_axes = nullptr);

// Splits a list of shardings into one text each.
absl::StatusOr<std::vector<std::string>> SplitShardingPerValue(absl::string_view text);
// Returns the names in manual_axes{"x", "y"}.
absl::StatusOr<std::set<std::string>> ParseManualAxes(absl::string_view text);

}  // namespace backplane::to_hlo

#endif  // BACKPLANE_CORE_IMPORT_TO_HLO_SHARDY_SHARDING_H_
