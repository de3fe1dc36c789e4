//! Child workflows.

use segno_sdk::prelude::*;

#[task]
async fn count_words(page: String) -> Result<u64> {
    Ok(page.split_whitespace().count() as u64)
}

#[workflow]
async fn chapter(ctx: Context, pages: Vec<String>) -> Result<u64> {
    Ok(try_join_all(pages.into_iter().map(|page| ctx.schedule::<CountWords>(page))).await?.into_iter().sum())
}

#[workflow]
async fn book(ctx: Context, chapters: Vec<Vec<String>>) -> Result<u64> {
    let children: Vec<_> = chapters
        .into_iter()
        .enumerate()
        .map(|(n, pages)| ctx.schedule_workflow::<Chapter>(&format!("chapter-{n}"), pages))
        .collect();
    Ok(try_join_all(children).await?.into_iter().sum()) // workflow ids book-1/chapter-0, book-1/chapter-1
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Client::from_env().await?.queue("books");
    let worker = queue.worker().workflow::<Book>().workflow::<Chapter>().task::<CountWords>().build()?;
    let pages = vec![vec!["once upon".to_string()], vec!["a time".to_string(), "the end".to_string()]];
    println!("{}", worker.run_until(queue.execute::<Book>("book-1", pages)).await?);
    Ok(())
}
