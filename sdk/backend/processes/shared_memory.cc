#include "sdk/backend/processes/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/wire.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr char kSegmentName[] = "backplane-collectives";
constexpr size_t kNonceBytes = 16;
constexpr int64_t kSegmentPage = 4096;
// The seals that a segment must have: its size cannot change, so that no access to it can fail.
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
#ifdef F_SEAL_FUTURE_WRITE
constexpr int kWriteSeal = F_SEAL_FUTURE_WRITE;
#else
constexpr int kWriteSeal = 0x10;
#endif

// The first page of a segment has the nonce. Then follow the numbers of the uses that this process has released, a row
// of kMaxSharedBlocks for each owner. Then follow a MessageRing and then a MessageRingReader for each other process,
// and then the blocks.
using ReleasedUse = std::atomic<uint32_t>;
static_assert(ReleasedUse::is_always_lock_free && sizeof(ReleasedUse) == 4);

ReleasedUse* ReleasedUseAt(std::byte* segment, int32_t owner, uint32_t block) {
  return reinterpret_cast<ReleasedUse*>(segment + kSegmentPage) + int64_t{owner} * kMaxSharedBlocks + block;
}

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("shared memory: ", what, ": ", std::strerror(errno)));
}

std::string ReadBootId() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

std::string MakeNonce() {
  std::random_device random;
  std::string bytes;
  while (bytes.size() < kNonceBytes) {
    const uint32_t word = random();
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return bytes;
}

// Returns 0 or the number of an error.
int AllocatePages(int file, int64_t first, int64_t bytes) {
  int error = 0;
  do error = posix_fallocate(file, first, bytes);
  while (error == EINTR);
  return error;
}

struct FileCloser {
  int file;
  ~FileCloser() { close(file); }
};

}  // namespace

int64_t SharedMemory::FirstRing() const {
  return RoundUp(kSegmentPage + int64_t{num_processes_} * kMaxSharedBlocks * int64_t{sizeof(ReleasedUse)},
                 kSegmentPage);
}

int64_t SharedMemory::FirstRingReader() const {
  const int64_t rings = num_processes_ <= kMaxRingProcesses ? num_processes_ : 0;
  return FirstRing() + rings * int64_t{sizeof(MessageRing)};
}

int64_t SharedMemory::FirstBlock() const {
  return RoundUp(FirstRingReader() + num_processes_ * int64_t{sizeof(MessageRingReader)}, kSegmentPage);
}

MessageRing& SharedMemory::GetRing(const Segment& segment, int32_t reader) const {
  return reinterpret_cast<MessageRing*>(segment.memory + FirstRing())[reader];
}

MessageRingReader& SharedMemory::GetRingReader(const Segment& segment, int32_t writer) const {
  return reinterpret_cast<MessageRingReader*>(segment.memory + FirstRingReader())[writer];
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Create(int32_t process, int32_t num_processes,
                                                                   int64_t blocks) {
  if (blocks < 1 || blocks > kMaxSharedBlocks)
    return absl::InvalidArgumentError(absl::StrCat("shared memory: ", blocks, " blocks"));
  std::unique_ptr<SharedMemory> made(new SharedMemory(process, num_processes));
  Segment& own = made->own_;
  own.blocks = blocks;
  own.first_block = made->FirstBlock();
  own.bytes = own.first_block + blocks * kSharedBlockBytes;
  const int file = made->file_ = memfd_create(kSegmentName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return SystemError("memfd_create");
  if (fchmod(file, S_IRUSR | S_IWUSR) != 0 || ftruncate(file, own.bytes) != 0) return SystemError("its size");
  // The memory of what comes before the blocks is needed at once, that of the blocks when one is taken. Memory that is
  // not there would be a signal later, and not an error.
  if (const int error = AllocatePages(file, 0, own.first_block); error != 0) {
    errno = error;
    return SystemError("its first pages");
  }
  void* memory = mmap(nullptr, static_cast<size_t>(own.bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return SystemError("mmap");
  own.memory = static_cast<std::byte*>(memory);
  if (fcntl(file, F_ADD_SEALS, kSizeSeals) != 0) return SystemError("its seals");
  // From now on it can be mapped for reading only. Older kernels cannot do that, and work without.
  (void)fcntl(file, F_ADD_SEALS, kWriteSeal);
  made->nonce_ = MakeNonce();
  std::memcpy(own.memory, made->nonce_.data(), kNonceBytes);
  made->uses_.resize(static_cast<size_t>(blocks));
  MutexLock lock(made->mu_);
  for (int64_t b = blocks - 1; b >= 0; --b) made->returned_.push_back(static_cast<uint32_t>(b));
  return made;
}

SharedMemory::~SharedMemory() {
  for (int32_t peer = 0; peer < num_processes_; ++peer) Close(peer);
  if (own_.memory != nullptr) munmap(own_.memory, static_cast<size_t>(own_.bytes));
  if (file_ >= 0) close(file_);
}

std::string SharedMemory::Describe() const {
  WireWriter out;
  out.Bytes(1, ReadBootId());
  out.Varint(2, static_cast<uint64_t>(getpid()));
  out.Varint(3, static_cast<uint64_t>(file_));
  out.Varint(4, static_cast<uint64_t>(own_.blocks));
  out.Bytes(5, nonce_);
  out.Bytes(6, network_);
  return out.Take();
}

absl::Status SharedMemory::Open(int32_t peer, absl::string_view description) {
  std::string boot, nonce, network;
  uint64_t process = 0, number = 0, blocks = 0;
  WireReader in(description);
  while (in.Next()) {
    if (in.field == 1) boot = std::string(in.bytes);
    if (in.field == 2) process = in.value;
    if (in.field == 3) number = in.value;
    if (in.field == 4) blocks = in.value;
    if (in.field == 5) nonce = std::string(in.bytes);
    if (in.field == 6) network = std::string(in.bytes);
  }
  if (!in.ok() || nonce.size() != kNonceBytes || blocks < 1 || blocks > uint64_t{kMaxSharedBlocks})
    return absl::InvalidArgumentError("shared memory: its description is invalid");
  if (boot != ReadBootId()) return absl::UnavailableError("shared memory: it is on another machine");
  const std::string path = absl::StrCat("/proc/", process, "/fd/", number);
  // In another container the path may name any file of any process. Only a segment is opened.
  char target[64] = {};
  if (readlink(path.c_str(), target, sizeof target - 1) < 0) return SystemError(path);
  if (!absl::StartsWith(target, absl::StrCat("/memfd:", kSegmentName)))
    return absl::UnavailableError(absl::StrCat("shared memory: ", path, " is another file"));
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return SystemError(path);
  const FileCloser closer{file};
  Segment segment;
  segment.blocks = static_cast<int64_t>(blocks);
  segment.is_in_our_network = network == network_;
  segment.first_block = FirstBlock();
  segment.bytes = segment.first_block + segment.blocks * kSharedBlockBytes;
  struct stat status {};
  const int seals = fcntl(file, F_GET_SEALS);
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & (S_IRWXG | S_IRWXO)) != 0 || status.st_size != segment.bytes || seals < 0 ||
      (seals & kSizeSeals) != kSizeSeals)
    return absl::PermissionDeniedError(absl::StrCat("shared memory: ", path, " is not the segment of a process"));
  void* memory = mmap(nullptr, static_cast<size_t>(segment.bytes), PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return SystemError("mmap");
  segment.memory = static_cast<std::byte*>(memory);
  if (std::memcmp(segment.memory, nonce.data(), kNonceBytes) != 0) {
    munmap(memory, static_cast<size_t>(segment.bytes));
    return absl::PermissionDeniedError(absl::StrCat("shared memory: ", path, " is the segment of another process"));
  }
  Close(peer);
  peers_[static_cast<size_t>(peer)] = segment;
  if (HasRings(peer) && !CanAwaitRecords(GetRing(segment, process_))) {
    Close(peer);
    return absl::UnavailableError("shared memory: this system cannot wait for it");
  }
  return absl::OkStatus();
}

void SharedMemory::Close(int32_t peer) {
  Segment& segment = peers_[static_cast<size_t>(peer)];
  if (segment.memory != nullptr) munmap(segment.memory, static_cast<size_t>(segment.bytes));
  segment = {};
}

bool SharedMemory::IsReleased(uint32_t block, int32_t reader) const {
  std::byte* const memory = peers_[static_cast<size_t>(reader)].memory;
  return ReleasedUseAt(memory, process_, block)->load(std::memory_order_acquire) == uses_[block].number;
}

bool SharedMemory::IsFree(uint32_t block) const {
  const std::vector<int32_t>& readers = uses_[block].readers;
  return std::all_of(readers.begin(), readers.end(), [&](int32_t reader) { return IsReleased(block, reader); });
}

std::vector<uint32_t> SharedMemory::TakeBlocks(size_t most) {
  std::vector<uint32_t> taken;
  taken.reserve(most);
  MutexLock lock(mu_);
  if (backing_ == Backing::kNone) {
    backing_ = AllocatePages(file_, own_.first_block, own_.bytes - own_.first_block) == 0 ? Backing::kComplete
                                                                                          : Backing::kRefused;
  }
  if (backing_ == Backing::kRefused) return taken;
  for (size_t i = returned_.size(); i-- > 0 && taken.size() < most;) {
    if (!IsFree(returned_[i])) continue;
    taken.push_back(returned_[i]);
    returned_.erase(returned_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return taken;
}

void SharedMemory::ReturnBlocks(absl::Span<const uint32_t> blocks) {
  MutexLock lock(mu_);
  // The block that was used last is taken first, since it is the most likely to be in the cache.
  returned_.insert(returned_.end(), blocks.begin(), blocks.end());
}

uint32_t SharedMemory::StartUse(uint32_t block, std::vector<int32_t> readers) {
  uses_[block].readers = std::move(readers);
  return ++uses_[block].number;
}

void SharedMemory::RemoveReader(uint32_t block, int32_t reader) { std::erase(uses_[block].readers, reader); }

std::vector<int32_t> SharedMemory::FindReaders(uint32_t block) const {
  std::vector<int32_t> left;
  for (int32_t reader : uses_[block].readers) {
    if (!IsReleased(block, reader)) left.push_back(reader);
  }
  return left;
}

const std::byte* SharedMemory::Find(int32_t peer, const SharedChunk& chunk) const {
  const Segment& segment = peers_[static_cast<size_t>(peer)];
  if (segment.memory == nullptr || chunk.block >= segment.blocks || chunk.bytes < 1 || chunk.bytes > kSharedBlockBytes)
    return nullptr;
  return segment.memory + segment.first_block + chunk.block * kSharedBlockBytes;
}

void SharedMemory::Release(int32_t peer, const SharedChunk& chunk) {
  ReleasedUseAt(own_.memory, peer, chunk.block)->store(chunk.use, std::memory_order_release);
}

bool SharedMemory::WriteMessage(int32_t peer, absl::Span<const std::byte> first, absl::Span<const std::byte> second) {
  if (first.size() + second.size() > MessageRing::kMaxRecordBytes) return false;
  MutexLock lock(write_mus_[static_cast<size_t>(peer)]);
  return WriteRecord(GetRing(own_, peer), GetRingReader(peers_[static_cast<size_t>(peer)], process_), first, second);
}

absl::StatusOr<size_t> SharedMemory::ReadMessage(int32_t peer, std::byte* to) {
  return ReadRecord(GetRing(peers_[static_cast<size_t>(peer)], process_), GetRingReader(own_, peer), to);
}

void SharedMemory::AwaitMessage(int32_t peer, std::chrono::milliseconds limit) {
  AwaitRecord(GetRing(peers_[static_cast<size_t>(peer)], process_), GetRingReader(own_, peer), limit);
}

void SharedMemory::EndAwaiting(int32_t peer) { WakeReader(GetRing(peers_[static_cast<size_t>(peer)], process_)); }

}  // namespace backplane
