// Feeds corrupted inputs to every reader and reports those that it does not survive.
//
//   mutation_campaign [--reader NAME] [--count N] [--first N] [--seconds S] [--plugin PATH] [--save FOLDER]
//                     [--source FOLDER]
//   mutation_campaign --reader NAME --show INDEX       writes that input to standard output
//   mutation_campaign --reader NAME --file PATH        runs one input in this process
//
// Each reader gets --count inputs from number --first on (default 1000 from 0); an input is determined by its number.
// Inputs run in a child process with 4 GiB of address space. A finding is an input that ends the child (by a signal, an
// exception or an abort), uses more than 10 seconds of CPU time, or has not finished after two minutes. It is saved,
// and another child continues behind it. The last line has the counts; the exit status is 1 if there is a finding. With
// --plugin, that plugin also compiles each accepted program and replays each recording.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "sdk/host/client.h"
#include "sdk/host/loader.h"
#include "tests/mutation/mutate.h"
#include "tests/mutation/readers.h"
#include "tests/supervisor/supervisor.h"

#ifndef BACKPLANE_SOURCE_DIR
#define BACKPLANE_SOURCE_DIR "."
#endif

namespace backplane::mutation {
namespace {

struct Campaign {
  uint64_t count = 1000, first = 0;
  double seconds = 0;  // per reader; 0: no limit
  std::string save, plugin, source = BACKPLANE_SOURCE_DIR;
};

// Compiles on a plugin that is opened on first use, because threads of a client do not survive a fork.
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

std::vector<std::string> SeedsFor(const Reader& reader, const Campaign& campaign) {
  std::vector<std::string> seeds = reader.seeds(campaign.source);
  if (campaign.plugin.empty() || reader.plugin_seeds == nullptr) return seeds;
  for (std::string& seed : reader.plugin_seeds(campaign.plugin)) seeds.push_back(std::move(seed));
  return seeds;
}

std::string MakeInput(const Reader& reader, const std::vector<std::string>& seeds, uint64_t index) {
  return reader.mutate != nullptr ? reader.mutate(seeds, index) : Mutate(seeds, reader.text, index);
}

// Indices of Shared::counts: what happened to an input.
enum Count { kAccepted, kRefused };

// Returns the number of findings.
int Run(const Reader& reader, const Campaign& campaign) {
  const std::vector<std::string> seeds = SeedsFor(reader, campaign);
  if (seeds.empty()) {
    std::printf("%s: no seeds under %s\n", reader.name, campaign.source.c_str());
    return 1;
  }
  supervisor::Job job;
  job.first = campaign.first;
  job.count = campaign.count;
  job.seconds = campaign.seconds;
  job.one = [&](uint64_t index, supervisor::Shared& shared) -> std::string {
    const std::string input = MakeInput(reader, seeds, index);
    absl::Status status = reader.read(input);
    if (status.ok() && !campaign.plugin.empty() && reader.program_format != nullptr)
      status = CompileOn(campaign.plugin, reader.program_format, input);
    if (status.ok() && !campaign.plugin.empty() && reader.replay != nullptr)
      status = reader.replay(input, campaign.plugin);
    shared.counts[status.ok() ? kAccepted : kRefused]++;
    return "";
  };
  job.found = [&](const supervisor::Finding& finding) {
    std::printf("%s: input %llu: %s\n", reader.name, static_cast<unsigned long long>(finding.index),
                finding.how.c_str());
    if (!campaign.save.empty())
      std::ofstream(absl::StrCat(campaign.save, "/", reader.name, "-", finding.index), std::ios::binary)
          << MakeInput(reader, seeds, finding.index);
  };
  const supervisor::Totals totals = supervisor::RunJob(job);
  std::printf("%s: %llu inputs from %zu seeds: %llu accepted, %llu refused, %d findings, %.1f s\n", reader.name,
              static_cast<unsigned long long>(totals.done), seeds.size(),
              static_cast<unsigned long long>(totals.counts[kAccepted]),
              static_cast<unsigned long long>(totals.counts[kRefused]), totals.findings, totals.seconds);
  return totals.findings;
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
      for (const std::string& seed : SeedsFor(*only, campaign))
        std::ofstream(absl::StrCat(seed_folder, "/seed-", number++), std::ios::binary) << seed;
      return 0;
    }
    std::string input;
    if (!file.empty()) {
      std::ifstream in(file, std::ios::binary);
      input.assign(std::istreambuf_iterator<char>(in), {});
      absl::Status status = only->read(input);
      if (status.ok() && !campaign.plugin.empty() && only->replay != nullptr)
        status = only->replay(input, campaign.plugin);
      std::printf("%s\n", status.ToString().c_str());
      return 0;
    }
    uint64_t index = 0;
    if (!absl::SimpleAtoi(show, &index)) Usage("--show wants a number");
    input = MakeInput(*only, SeedsFor(*only, campaign), index);
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
