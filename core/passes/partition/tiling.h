// The tile of an array that each partition of a program holds.
//
// A Tiling is the canonical form of a Sharding: shardings that place the same data on the same partitions give equal
// tilings, however they are written. A value type without references. Thread-compatible.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_TILING_H_
#define BACKPLANE_CORE_PASSES_PARTITION_TILING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/attribute_values.h"
#include "core/types/shape.h"

namespace backplane {

class Tiling {
 public:
  // Every partition holds the full array.
  static Tiling Replicated(int64_t rank, int64_t partitions);
  // Converts the sharding of an array. Replicated, maximal, manual and unknown shardings give Replicated. Returns
  // Unimplemented for unreduced shardings, and InvalidArgument if the sharding does not fit the shape or names a number
  // of devices other than `partitions`.
  static absl::StatusOr<Tiling> FromSharding(const Sharding& sharding, const Shape& shape, int64_t partitions);

  // Whether the sharding is unreduced: the value is the sum of partial values that some of the partitions hold.
  static bool IsUnreduced(const Sharding& sharding);
  // Converts an unreduced sharding to the tiling of its partial sums. It has one more dimension than the array, the
  // last, which numbers the partial sums.
  static absl::StatusOr<Tiling> FromUnreducedSharding(const Sharding& sharding, const Shape& shape, int64_t partitions);

  int64_t rank() const { return static_cast<int64_t>(tiles_.size()); }
  int64_t partitions() const { return partitions_; }
  // Number of tiles along a dimension; 1 if the dimension is not split.
  int64_t tiles(int64_t dim) const { return tiles_[dim]; }
  // Index along `dim` of the tile that the partition holds.
  int64_t tile_index(int64_t partition, int64_t dim) const {
    return index_ == nullptr ? 0 : (*index_)[static_cast<size_t>(partition * rank() + dim)];
  }
  bool IsReplicated() const;
  int64_t CountTiles() const;
  bool IsTiled(int64_t dim) const { return tiles_[dim] > 1; }
  // Whether the same number of partitions holds each tile. False, for example, if two dimensions are split over the
  // same partitions.
  bool IsGrid() const;
  // Whether all dimensions split evenly.
  bool Divides(const Shape& shape) const;
  // Returns this tiling with each dimension that does not split evenly replicated.
  Tiling WithoutUnevenDims(const Shape& shape) const;
  // Returns the shape of one shard. All shards have the same shape: a dimension that does not split evenly is rounded
  // up, and the last shards are padded.
  Shape ShardShape(const Shape& full) const;

  // Restricts the tiling to a region that is manual over some mesh axes. Partitions of different manual subgroups hold
  // different arrays, and the tiling applies to the array of each subgroup. The list gives the subgroup of each
  // partition. An empty list means that all partitions are in one subgroup.
  Tiling WithManualSubgroups(const Ints& subgroup_of_partition) const;
  const Ints& manual_subgroups() const { return manual_subgroups_; }

  // Splits the unsplit dimension `dim` like dimension `other_dim` of `other`. Returns false and changes nothing if
  // `dim` is split already, if `other_dim` is not, or if the result is no grid.
  bool SplitLike(int64_t dim, const Tiling& other, int64_t other_dim);
  // Whether every dimension that `other` splits is split in the same way here. A partition can then slice its tile of
  // `other` without communication.
  bool Refines(const Tiling& other) const;

  // Returns the tiling whose dimension i is dimension from[i] of this one, or is not split if from[i] is -1.
  Tiling SelectDims(absl::Span<const int64_t> from) const;
  // Returns this tiling with `dim` not split.
  Tiling ReplicateDim(int64_t dim) const;

  // Groups partitions that hold all tiles along `dims` and have equal tile indices along the other dimensions. A group
  // holds each combination of tile indices once, in row-major order of `dims`. Each partition is in exactly one group.
  std::vector<Ints> GroupPartitionsAlong(absl::Span<const int64_t> dims) const;

  Sharding ToSharding() const;
  std::string ToString() const { return ToSharding().ToString(); }
  bool operator==(const Tiling& other) const;

 private:
  int64_t GetManualSubgroup(int64_t partition) const {
    return manual_subgroups_.empty() ? 0 : manual_subgroups_[static_cast<size_t>(partition)];
  }
  int64_t CountManualSubgroups() const;

  // Returns the tile indices to change them. Copies of the tiling share them until then.
  std::vector<int32_t>& MutableIndex();
  // The number of the tile that a partition holds, in row-major order of the tiles.
  int64_t GetTile(int64_t partition) const;

  int64_t partitions_ = 0;
  Ints tiles_;
  std::shared_ptr<std::vector<int32_t>> index_;  // by partition and dimension; null: all are 0
  Ints manual_subgroups_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_TILING_H_
