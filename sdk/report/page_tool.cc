// page_tool OUT [TITLE=FILE]...: a page of JSON documents, for browser_test.py.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sdk/report/page.h"

int main(int argc, char** argv) {
  std::vector<backplane::report::PageDocument> documents;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t split = argument.find('=');
    std::ifstream file(argument.substr(split + 1), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (split == std::string::npos || !file) {
      std::fprintf(stderr, "page_tool: %s: expected TITLE=FILE\n", argument.c_str());
      return 2;
    }
    documents.push_back({argument.substr(0, split), text.str()});
  }
  if (argc < 2) return 2;
  std::ofstream(argv[1], std::ios::binary) << backplane::report::FormatPage(documents);
  return 0;
}
