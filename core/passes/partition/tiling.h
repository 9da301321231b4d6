// How an array lies on the partitions of a program: which tile of it each partition holds.
//
// The canonical form of a Sharding, in which equal placements are equal values whatever they were written as. Pure
// data.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_TILING_H_
#define BACKPLANE_CORE_PASSES_PARTITION_TILING_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/attribute_values.h"
#include "core/types/shape.h"

namespace backplane {

class Tiling {
 public:
  // Every partition holds all of an array of so many dimensions.
  static Tiling Whole(int64_t rank, int64_t partitions);
  // Of an array's sharding. Replicated, maximal, manual and unknown ones give Whole; unreduced values and a device
  // count other than `partitions` are errors.
  static absl::StatusOr<Tiling> Of(const Sharding& sharding, const Shape& shape, int64_t partitions);

  // Values that are to be added up over some of the partitions ("unreduced").
  static bool HasParts(const Sharding& sharding);
  // The tiling of such a value's partial sums; its last dimension, one more than the array has, numbers the parts.
  static absl::StatusOr<Tiling> PartsOf(const Sharding& sharding, const Shape& shape, int64_t partitions);

  int64_t rank() const { return static_cast<int64_t>(tiles_.size()); }
  int64_t partitions() const { return static_cast<int64_t>(at_.size()); }
  int64_t tiles(int64_t dim) const { return tiles_[dim]; }                          // 1: not split
  int64_t at(int64_t partition, int64_t dim) const { return at_[partition][dim]; }  // number of the partition's tile
  bool IsWhole() const;
  int64_t TileCount() const;
  bool IsTiled(int64_t dim) const { return tiles_[dim] > 1; }
  // Whether every tile is held by the same number of partitions, as it must be. Not so, for example, when two
  // dimensions were given the same split.
  bool IsGrid() const;
  // Whether all dimensions split evenly.
  bool Divides(const Shape& shape) const;
  // Not split along the dimensions that do not split evenly.
  Tiling EvenPart(const Shape& shape) const;
  // Of equal size: those of a dimension that does not split evenly are rounded up, and the last ones filled.
  Shape ShardOf(const Shape& whole) const;
  Shape WholeOf(const Shape& shard) const;

  // In a region that is manual over some of the partitions' coordinates: partitions of different families hold
  // different arrays, and a tiling is of each family's array. No list: one family.
  Tiling WithFamilies(const Ints& of_partition) const;
  const Ints& families() const { return families_; }

  // Splits a dimension that is not, as dimension `k` of `other` is; false, and nothing done, when that makes no grid.
  bool SplitLike(int64_t dim, const Tiling& other, int64_t k);
  // Whether dimensions that `other` splits are split as there: what more this one splits, each partition can cut by
  // itself.
  bool Extends(const Tiling& other) const;

  // The tiling of an array whose dimension i is this one's dimension `from[i]`, or not split where that is -1.
  Tiling Select(absl::Span<const int64_t> from) const;
  Tiling Without(int64_t dim) const;
  // Dimensions of both, one after the other.
  Tiling Join(const Tiling& other) const;

  // Partitions that together hold all tiles along `dims`, and equal coordinates otherwise: each group has each
  // combination once, in row-major order of those dimensions. Each partition is in exactly one group.
  std::vector<Ints> GroupsAlong(absl::Span<const int64_t> dims) const;

  Sharding ToSharding() const;
  std::string ToString() const { return ToSharding().ToString(); }
  bool operator==(const Tiling&) const = default;

 private:
  int64_t FamilyOf(size_t partition) const { return families_.empty() ? 0 : families_[partition]; }
  int64_t FamilyCount() const;

  Ints tiles_;
  std::vector<Ints> at_;
  Ints families_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_TILING_H_
