package powercut

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// judgeTimeout bounds the judgement of one image, which takes some 20 ms. Where a
// hang is what is expected, judgeTimeoutBad does.
const (
	judgeTimeout    = 10 * time.Second
	judgeTimeoutBad = 2 * time.Second
)

// judge is the process that looks at images, one after the other, and says of each
// "image N" when it begins and "ok" or "bad …" when it ends.
func judge() int {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		fmt.Fprintln(os.Stderr, "judge: read the job:", err)
		return 1
	}
	s := subjectNamed(j.Subject)
	for n, dir := range j.Images {
		fmt.Println("image", n)
		if err := s.judge(j, dir); err != nil {
			fmt.Println("bad", strings.ReplaceAll(err.Error(), "\n", "; "))
		} else {
			fmt.Println("ok")
		}
	}
	return 0
}

// judgeAll has every image of the job judged and gives what is wrong with each, ""
// where nothing is. A judge that dies or hangs has found something: the next one
// goes on behind that image, but not for ever.
func judgeAll(j job, timeout time.Duration) ([]string, error) {
	images := j.Images
	var verdicts []string
	for deaths := 0; len(verdicts) < len(images) && deaths < findingsMax; deaths++ {
		j.Images = images[len(verdicts):]
		more, err := judgeSome(j, timeout)
		if err != nil {
			return nil, err
		}
		verdicts = append(verdicts, more...)
	}
	return verdicts, nil
}

// judgeSome runs one judge until its first death, at least one image far.
func judgeSome(j job, timeout time.Duration) (verdicts []string, err error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(executable())
	cmd.Env = append(os.Environ(), roleEnv+"="+roleJudge)
	cmd.Stdin = bytes.NewReader(text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := make(chan string)
	go readLines(out, lines)
	begun := false
	for {
		select {
		case line, more := <-lines:
			word, rest, _ := strings.Cut(line, " ")
			switch {
			case !more:
				cmd.Wait()
				if len(verdicts) < len(j.Images) {
					if !begun {
						return nil, fmt.Errorf("a judge ended before its first image: %s", head(stderr.Bytes()))
					}
					verdicts = append(verdicts, "the judge crashed: "+head(stderr.Bytes()))
				}
				return verdicts, nil
			case word == "image":
				begun = true
			case word == "ok":
				verdicts = append(verdicts, "")
			case word == "bad":
				verdicts = append(verdicts, rest)
			}
		case <-time.After(timeout):
			cmd.Process.Kill()
			for range lines { // it may have said one more verdict; that image is judged again
			}
			cmd.Wait()
			return append(verdicts, fmt.Sprintf("the judge hung for %v", timeout)), nil
		}
	}
}

func readLines(r io.Reader, lines chan<- string) {
	defer close(lines)
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		lines <- strings.TrimSuffix(line, "\n")
	}
}
