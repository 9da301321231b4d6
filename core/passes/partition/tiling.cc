#include "core/passes/partition/tiling.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/types/integer_division.h"

namespace backplane {

Tiling Tiling::Replicated(int64_t rank, int64_t partitions) {
  Tiling t;
  t.tiles_.assign(static_cast<size_t>(rank), 1);
  t.partitions_ = partitions;
  return t;
}

bool Tiling::operator==(const Tiling& other) const {
  if (partitions_ != other.partitions_ || tiles_ != other.tiles_ || manual_subgroups_ != other.manual_subgroups_)
    return false;
  if (index_ == other.index_) return true;
  if (index_ != nullptr && other.index_ != nullptr) return *index_ == *other.index_;
  const std::vector<int32_t>& given = index_ != nullptr ? *index_ : *other.index_;
  return std::all_of(given.begin(), given.end(), [](int32_t index) { return index == 0; });
}

std::vector<int32_t>& Tiling::MutableIndex() {
  if (index_ == nullptr) {
    index_ = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(partitions_ * rank()), 0);
  } else if (index_.use_count() > 1) {
    index_ = std::make_shared<std::vector<int32_t>>(*index_);
  }
  return *index_;
}

int64_t Tiling::GetTile(int64_t partition) const {
  int64_t tile = 0;
  for (int64_t d = 0; d < rank(); ++d) tile = tile * tiles(d) + tile_index(partition, d);
  return tile;
}

absl::StatusOr<Tiling> Tiling::FromSharding(const Sharding& sharding, const Shape& shape, int64_t partitions) {
  const int64_t rank = shape.IsArray() ? shape.rank() : 0;
  Tiling t = Replicated(rank, partitions);
  if (partitions == 1) return t;  // the program may have been written for more devices
  auto make_error = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("sharding ", sharding.ToString(), " of ", shape.ToString(), " on ",
                                                   partitions, " partitions: ", why));
  };
  if (sharding.type == Sharding::Type::kUnreduced)
    return absl::UnimplementedError(make_error("unreduced values").message());
  if (sharding.type == Sharding::Type::kTuple) return make_error("is a tuple sharding, expected an array sharding");
  if (sharding.type != Sharding::Type::kOther) return t;
  for (Sharding::Type s : sharding.last_tile_dims) {
    if (s == Sharding::Type::kUnreduced) return absl::UnimplementedError(make_error("unreduced values").message());
  }
  const Ints devices = sharding.DeviceList();
  if (static_cast<int64_t>(devices.size()) != partitions)
    return make_error(absl::StrCat("names ", devices.size(), " devices"));
  if (static_cast<int64_t>(sharding.tile_dims.size()) < rank) return make_error("has too few dimensions");
  int64_t copies = 1;
  for (size_t d = 0; d < sharding.tile_dims.size(); ++d) {
    if (static_cast<int64_t>(d) < rank)
      t.tiles_[d] = sharding.tile_dims[d];
    else
      copies *= sharding.tile_dims[d];
  }
  std::vector<bool> seen(devices.size(), false);
  std::vector<int32_t>& index = t.MutableIndex();
  for (size_t i = 0; i < devices.size(); ++i) {
    const int64_t device = devices[i];
    if (device < 0 || device >= partitions || seen[static_cast<size_t>(device)])
      return make_error("names a device twice or out of range");
    seen[static_cast<size_t>(device)] = true;
    int64_t tile = static_cast<int64_t>(i) / copies;
    for (int64_t d = rank; d-- > 0;) {
      index[static_cast<size_t>(device * rank + d)] = static_cast<int32_t>(tile % t.tiles_[static_cast<size_t>(d)]);
      tile /= t.tiles_[static_cast<size_t>(d)];
    }
  }
  return t;
}

bool Tiling::IsUnreduced(const Sharding& sharding) {
  return sharding.type == Sharding::Type::kUnreduced ||
         std::find(sharding.last_tile_dims.begin(), sharding.last_tile_dims.end(), Sharding::Type::kUnreduced) !=
             sharding.last_tile_dims.end();
}

absl::StatusOr<Tiling> Tiling::FromUnreducedSharding(const Sharding& sharding, const Shape& shape, int64_t partitions) {
  if (partitions == 1) return Replicated(shape.rank() + 1, 1);
  Sharding array_sharding = sharding;
  Ints from(static_cast<size_t>(shape.rank()));
  std::iota(from.begin(), from.end(), 0);
  if (sharding.type == Sharding::Type::kUnreduced) {  // each partition holds a partial sum
    array_sharding = Sharding();
    array_sharding.type = Sharding::Type::kOther;
    array_sharding.tile_dims.assign(from.size(), 1);
    array_sharding.tile_dims.push_back(partitions);
    array_sharding.iota = IotaDevices{array_sharding.tile_dims, {partitions}, {}};
    from.push_back(shape.rank());
  } else {
    const auto at =
        std::find(sharding.last_tile_dims.begin(), sharding.last_tile_dims.end(), Sharding::Type::kUnreduced);
    if (at == sharding.last_tile_dims.end()) return absl::InternalError("a sharding without partial sums");
    from.push_back(shape.rank() + (at - sharding.last_tile_dims.begin()));
  }
  array_sharding.last_tile_dims.clear();
  // FromSharding sees the subgroup dimensions of the sharding as array dimensions of size one.
  DimVector dims = shape.dimensions();
  dims.resize(array_sharding.tile_dims.size(), 1);
  absl::StatusOr<Tiling> all = FromSharding(array_sharding, Shape(shape.element_type(), dims), partitions);
  if (!all.ok()) return all.status();
  if (from.back() >= all->rank())
    return absl::InvalidArgumentError(absl::StrCat("sharding ", sharding.ToString(), " of ", shape.ToString()));
  return all->SelectDims(from);
}

Tiling Tiling::WithManualSubgroups(const Ints& subgroup_of_partition) const {
  Tiling t = *this;
  t.manual_subgroups_ = subgroup_of_partition;
  return t;
}

int64_t Tiling::CountManualSubgroups() const {
  return manual_subgroups_.empty()
             ? 1
             : static_cast<int64_t>(std::set<int64_t>(manual_subgroups_.begin(), manual_subgroups_.end()).size());
}

bool Tiling::SplitLike(int64_t dim, const Tiling& other, int64_t other_dim) {
  if (!other.IsTiled(other_dim) || IsTiled(dim)) return false;
  Tiling refined = *this;
  refined.tiles_[static_cast<size_t>(dim)] = other.tiles(other_dim);
  std::vector<int32_t>& index = refined.MutableIndex();
  for (int64_t p = 0; p < partitions_; ++p)
    index[static_cast<size_t>(p * rank() + dim)] = static_cast<int32_t>(other.tile_index(p, other_dim));
  if (!refined.IsGrid()) return false;
  *this = std::move(refined);
  return true;
}

bool Tiling::Refines(const Tiling& other) const {
  if (other.rank() != rank() || other.manual_subgroups_ != manual_subgroups_) return false;
  for (int64_t d = 0; d < rank(); ++d) {
    if (other.IsTiled(d) && !(SelectDims({d}) == other.SelectDims({d}))) return false;
  }
  return true;
}

int64_t Tiling::CountTiles() const {
  int64_t n = 1;
  for (int64_t t : tiles_) n *= t;
  return n;
}

bool Tiling::IsReplicated() const {
  return std::all_of(tiles_.begin(), tiles_.end(), [](int64_t n) { return n == 1; });
}

bool Tiling::IsGrid() const {
  const int64_t subgroups = CountManualSubgroups();
  int64_t product = subgroups;
  for (int64_t n : tiles_) {
    product *= n;
    if (product > partitions()) return false;
  }
  // Each tile of each subgroup has as many holders.
  std::map<int64_t, int64_t> subgroup_place;
  for (int64_t subgroup : manual_subgroups_) subgroup_place.emplace(subgroup, 0);
  int64_t place = 0;
  for (auto& [subgroup, at] : subgroup_place) at = place++;
  const int64_t tiles = product / subgroups, copies = partitions() / product;
  std::vector<int64_t> holders(static_cast<size_t>(product), 0);
  for (int64_t p = 0; p < partitions(); ++p) {
    const int64_t at = manual_subgroups_.empty() ? 0 : subgroup_place.at(GetManualSubgroup(p));
    ++holders[static_cast<size_t>(at * tiles + GetTile(p))];
  }
  return std::all_of(holders.begin(), holders.end(), [&](int64_t n) { return n == copies; });
}

bool Tiling::Divides(const Shape& shape) const {
  for (int64_t d = 0; d < rank(); ++d) {
    if (shape.dimensions(d) % tiles_[static_cast<size_t>(d)] != 0) return false;
  }
  return true;
}

Tiling Tiling::WithoutUnevenDims(const Shape& shape) const {
  Tiling t = *this;
  for (int64_t d = 0; d < rank(); ++d) {
    if (shape.dimensions(d) % tiles(d) != 0) t = t.ReplicateDim(d);
  }
  return t;
}

Shape Tiling::ShardShape(const Shape& full) const {
  DimVector dims = full.dimensions();
  for (int64_t d = 0; d < rank(); ++d) {
    int64_t& n = dims[static_cast<size_t>(d)];
    n = CeilDiv(n, tiles(d));
  }
  return Shape(full.element_type(), dims);
}

Tiling Tiling::SelectDims(absl::Span<const int64_t> from) const {
  Tiling t = Replicated(static_cast<int64_t>(from.size()), partitions()).WithManualSubgroups(manual_subgroups_);
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] < 0) continue;
    t.tiles_[d] = tiles_[static_cast<size_t>(from[d])];
    if (t.tiles_[d] == 1) continue;
    std::vector<int32_t>& index = t.MutableIndex();
    for (int64_t p = 0; p < partitions_; ++p)
      index[static_cast<size_t>(p) * from.size() + d] = static_cast<int32_t>(tile_index(p, from[d]));
  }
  return t;
}

Tiling Tiling::ReplicateDim(int64_t dim) const {
  Ints from(tiles_.size());
  std::iota(from.begin(), from.end(), 0);
  from[static_cast<size_t>(dim)] = -1;
  return SelectDims(from);
}

std::vector<Ints> Tiling::GroupPartitionsAlong(absl::Span<const int64_t> dims) const {
  // Sorts the partitions by their tile indices along the other dimensions, then by those along `dims`. Several
  // partitions may hold copies of one tile. The k-th copies of all tiles form a group.
  std::map<std::pair<int64_t, Ints>, std::map<Ints, Ints>> by_other_indices;
  for (int64_t p = 0; p < partitions_; ++p) {
    Ints rest, along;
    for (int64_t d = 0; d < rank(); ++d) rest.push_back(tile_index(p, d));
    for (int64_t d : dims) {
      along.push_back(tile_index(p, d));
      rest[static_cast<size_t>(d)] = 0;
    }
    by_other_indices[{GetManualSubgroup(p), std::move(rest)}][along].push_back(p);
  }
  std::vector<Ints> groups;
  for (const auto& [rest, tiles] : by_other_indices) {
    for (size_t k = 0; k < tiles.begin()->second.size(); ++k) {
      Ints group;
      for (const auto& [along, copies] : tiles) group.push_back(copies[k]);
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

Sharding Tiling::ToSharding() const {
  Sharding s;
  if (IsReplicated()) return s;
  s.type = Sharding::Type::kOther;
  s.tile_dims = tiles_;
  int64_t product = 1;
  for (int64_t n : tiles_) product *= n;
  if (product < partitions()) {
    s.tile_dims.push_back(partitions() / product);
    s.replicate_on_last_tile_dim = true;
  }
  // The partitions by tile, in row-major order.
  std::vector<std::pair<int64_t, int64_t>> holders;
  for (int64_t p = 0; p < partitions_; ++p) holders.emplace_back(GetTile(p), p);
  std::sort(holders.begin(), holders.end());
  for (const auto& [tile, partition] : holders) s.devices.push_back(partition);
  if (partitions_ > kMaxListedDevices) {
    s.iota = FindIotaDevices(s.tile_dims, s.devices);
  } else if (std::is_sorted(s.devices.begin(), s.devices.end())) {
    s.iota = IotaDevices{s.tile_dims, {partitions()}, {}};
  }
  if (s.iota) s.devices = Ints();
  return s;
}

}  // namespace backplane
