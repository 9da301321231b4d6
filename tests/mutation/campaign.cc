// Feeds damaged inputs to every reader and says which of them it did not survive.
//
//   mutation_campaign [--reader NAME] [--count N] [--first N] [--seconds S] [--plugin PATH] [--save FOLDER] [--source
//   FOLDER] mutation_campaign --reader NAME --show INDEX       writes that input to standard output mutation_campaign
//   --reader NAME --file PATH        one input, in this process
//
// --count inputs go to each reader, from --first on (default 1000 from 0), each made from its number alone. They run in
// a child process with 4 GiB of address space. A finding is an input that ends the child (a signal, an exception, an
// abort), keeps it busy for more than 10 seconds of processor time, or has not ended after two minutes; it is saved,
// and the next child goes on behind it. The last line counts; the exit status is 1 when there is a finding. With
// --plugin each program that its reader accepts is compiled by that plugin as well.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "sdk/host/client.h"
#include "sdk/host/loader.h"
#include "tests/mutation/mutate.h"
#include "tests/mutation/readers.h"

#ifndef BACKPLANE_SOURCE_DIR
#define BACKPLANE_SOURCE_DIR "."
#endif

namespace backplane::mutation {
namespace {

constexpr int kProcessorSeconds = 10;  // on a machine with other work the time on the clock tells little
constexpr int kClockSeconds = 120;
[[maybe_unused]] constexpr rlim_t kAddressSpace = rlim_t{4} << 30;

// Shared by the parent and the child that reads.
struct Progress {
  std::atomic<uint64_t> index;                        // of the input that is being read
  std::atomic<int64_t> begun_ms, begun_processor_ms;  // when its reading began, and the child's processor time then
  std::atomic<uint64_t> accepted, refused;
};

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t ProcessorMs(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

// Whether `child` has been at one input for too long.
bool Hangs(pid_t child, const Progress& progress) {
  if (NowMs() - progress.begun_ms > kClockSeconds * 1000) return true;
  clockid_t clock;
  return clock_getcpuclockid(child, &clock) == 0 &&
         ProcessorMs(clock) - progress.begun_processor_ms > kProcessorSeconds * 1000;
}

struct Campaign {
  uint64_t count = 1000, first = 0;
  double seconds = 0;  // for each reader; 0: no limit
  std::string save, plugin, source = BACKPLANE_SOURCE_DIR;
};

// Compiles on a plugin that is opened when it is first needed: threads of a client do not survive a fork.
absl::Status CompileOn(const std::string& plugin, const char* format, const std::string& bytes) {
  static absl::StatusOr<host::Client>* const client = [&] {
    absl::StatusOr<const host::Plugin*> loaded = host::Plugin::Load(plugin);
    return new absl::StatusOr<host::Client>(loaded.ok() ? host::Client::Create(**loaded, {}) : loaded.status());
  }();
  if (!client->ok()) {
    std::fprintf(stderr, "%s\n", client->status().ToString().c_str());
    std::abort();
  }
  return (*client)->Compile({format, bytes}).status();
}

[[noreturn]] void ReadInChild(const Reader& reader, const std::vector<std::string>& seeds, uint64_t first, uint64_t end,
                              int64_t until_ms, const std::string& plugin, Progress* progress) {
#ifndef BACKPLANE_SANITIZED  // the shadow of a sanitizer takes more than any limit
  const rlimit limit = {kAddressSpace, kAddressSpace};
  setrlimit(RLIMIT_AS, &limit);
#endif
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (uint64_t i = first; i < end && NowMs() < until_ms; ++i) {
    const std::string input = Mutate(seeds, reader.text, i);
    progress->index = i;
    progress->begun_processor_ms = ProcessorMs(CLOCK_PROCESS_CPUTIME_ID);
    progress->begun_ms = NowMs();
    absl::Status status = reader.read(input);
    if (status.ok() && !plugin.empty() && reader.program_format != nullptr)
      status = CompileOn(plugin, reader.program_format, input);
    (status.ok() ? progress->accepted : progress->refused)++;
  }
  _exit(0);
}

std::string HowItEnded(int status, bool hung) {
  if (hung) return std::string("took too long");
  if (WIFSIGNALED(status)) return absl::StrCat("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return absl::StrCat("exit status ", WEXITSTATUS(status));
}

// The number of findings.
int Run(const Reader& reader, const Campaign& campaign) {
  const std::vector<std::string> seeds = reader.seeds(campaign.source);
  if (seeds.empty()) {
    std::printf("%s: no seeds under %s\n", reader.name, campaign.source.c_str());
    return 1;
  }
  auto* progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  new (progress) Progress();
  const int64_t begin_ms = NowMs();
  const int64_t until_ms = campaign.seconds > 0 ? begin_ms + static_cast<int64_t>(campaign.seconds * 1000)
                                                : std::numeric_limits<int64_t>::max();
  int findings = 0;
  const uint64_t end = campaign.first + campaign.count;
  for (uint64_t next = campaign.first; next < end && NowMs() < until_ms;) {
    progress->begun_ms = NowMs();
    progress->begun_processor_ms = 0;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) ReadInChild(reader, seeds, next, end, until_ms, campaign.plugin, progress);
    int status = 0;
    bool hung = false;
    while (waitpid(child, &status, WNOHANG) == 0) {
      if (!hung && Hangs(child, *progress)) {
        hung = true;
        kill(child, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    const uint64_t index = progress->index;
    ++findings;
    std::printf("%s: input %llu: %s\n", reader.name, static_cast<unsigned long long>(index),
                HowItEnded(status, hung).c_str());
    if (!campaign.save.empty())
      std::ofstream(absl::StrCat(campaign.save, "/", reader.name, "-", index), std::ios::binary)
          << Mutate(seeds, reader.text, index);
    next = index + 1;
  }
  const uint64_t accepted = progress->accepted, refused = progress->refused;
  std::printf("%s: %llu inputs from %zu seeds: %llu accepted, %llu refused, %d findings, %.1f s\n", reader.name,
              static_cast<unsigned long long>(accepted + refused) + findings, seeds.size(),
              static_cast<unsigned long long>(accepted), static_cast<unsigned long long>(refused), findings,
              static_cast<double>(NowMs() - begin_ms) / 1000);
  munmap(progress, sizeof(Progress));
  return findings;
}

[[noreturn]] void Usage(absl::string_view why) {
  std::fprintf(stderr, "mutation_campaign: %s\n", std::string(why).c_str());
  std::exit(2);
}

int Main(int argc, char** argv) {
  Campaign campaign;
  const Reader* only = nullptr;
  std::string show, file, seed_folder;
  for (int i = 1; i < argc; i += 2) {
    const absl::string_view name = argv[i];
    if (i + 1 == argc) Usage(absl::StrCat(name, " wants a value"));
    const std::string value = argv[i + 1];
    if (name == "--reader") {
      only = FindReader(value);
      if (only == nullptr) Usage(absl::StrCat("no reader '", value, "'"));
    } else if (name == "--count") {
      if (!absl::SimpleAtoi(value, &campaign.count)) Usage("--count wants a number");
    } else if (name == "--first") {
      if (!absl::SimpleAtoi(value, &campaign.first)) Usage("--first wants a number");
    } else if (name == "--seconds") {
      if (!absl::SimpleAtod(value, &campaign.seconds)) Usage("--seconds wants a number");
    } else if (name == "--save") {
      campaign.save = value;
    } else if (name == "--plugin") {
      campaign.plugin = value;
    } else if (name == "--source") {
      campaign.source = value;
    } else if (name == "--show") {
      show = value;
    } else if (name == "--file") {
      file = value;
    } else if (name == "--write-seeds") {
      seed_folder = value;
    } else {
      Usage(absl::StrCat("no option '", name, "'"));
    }
  }
  if (!file.empty() || !show.empty() || !seed_folder.empty()) {
    if (only == nullptr) Usage("--show, --file and --write-seeds want a --reader");
    if (!seed_folder.empty()) {
      size_t number = 0;
      for (const std::string& seed : only->seeds(campaign.source))
        std::ofstream(absl::StrCat(seed_folder, "/seed-", number++), std::ios::binary) << seed;
      return 0;
    }
    std::string input;
    if (!file.empty()) {
      std::ifstream in(file, std::ios::binary);
      input.assign(std::istreambuf_iterator<char>(in), {});
      std::printf("%s\n", only->read(input).ToString().c_str());
      return 0;
    }
    uint64_t index = 0;
    if (!absl::SimpleAtoi(show, &index)) Usage("--show wants a number");
    input = Mutate(only->seeds(campaign.source), only->text, index);
    std::fwrite(input.data(), 1, input.size(), stdout);
    return 0;
  }
  int findings = 0;
  for (const Reader& reader : AllReaders()) {
    if (only == nullptr || only == &reader) findings += Run(reader, campaign);
  }
  std::printf("%d findings\n", findings);
  return findings == 0 ? 0 : 1;
}

}  // namespace
}  // namespace backplane::mutation

int main(int argc, char** argv) { return backplane::mutation::Main(argc, argv); }
